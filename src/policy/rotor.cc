// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/rotor.h"

#include "policy/short_chain.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace spillway {

namespace {

constexpr double kNoWay = std::numeric_limits<double>::infinity();
constexpr std::int64_t kSlots = 500;  ///< theirs
constexpr std::int64_t kMostSlots = 2000;

/// A chain of more than twice as many is shortened: a choice, so that 10,000 stages take seconds.
constexpr std::size_t kMostRotorStages = 1250;

/// The least time from each stage on, by the slots that stages before it hold.
class RotorTable {
  public:
    RotorTable(
        std::vector<Stage> const& stages,
        std::int64_t room_bytes,
        std::int64_t segment_bytes,
        std::int64_t slots
    )
        : stages_(stages),
          room_bytes_(room_bytes),
          slot_bytes_(std::max<std::int64_t>(1, (room_bytes + slots - 1) / slots)),
          slots_((room_bytes + slot_bytes_ - 1) / slot_bytes_),
          segment_bytes_(segment_bytes) {
        best_ns_.assign((stages.size() + 1) * width(), kNoWay);
        std::fill(best_ns_.end() - static_cast<std::ptrdiff_t>(width()), best_ns_.end(), 0);
        for (std::size_t i = stages.size(); i-- > 0;) {
            fill(i);
        }
    }

    [[nodiscard]] std::optional<std::vector<StageFate>> fates() const {
        if (best_ns_.front() == kNoWay) {
            return std::nullopt;
        }
        std::vector<StageFate> fates;
        std::int64_t held = 0;
        while (fates.size() < stages_.size()) {
            std::size_t const i = fates.size();
            Choice const choice = best_choice(i, held);
            held += choice.kept;
            fates.push_back(choice.end == i ? StageFate::keep : StageFate::checkpoint);
            fates.resize(std::max(i + 1, choice.end), StageFate::inner);
        }
        return fates;
    }

  private:
    [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(slots_) + 1; }
    [[nodiscard]] std::int64_t slots_of(std::int64_t bytes) const {
        return (bytes + slot_bytes_ - 1) / slot_bytes_;
    }
    /// What becomes of the stages from i up to `end`; of stage i alone, which is kept, where that
    /// is i itself.
    struct Choice {
        std::size_t end = 0;
        double own_ns = 0;
        std::int64_t kept = 0;       ///< slots that stay
        std::int64_t most_held = 0;  ///< slots that may be held before it
    };

    /// Calls `visit` with each choice for stage i, the kept stage and then longer and longer
    /// segments, until that returns false or one does not fit. Where the stage does not fit, no
    /// segment that begins with it does.
    template <typename Visit>
    void each_choice(std::size_t i, Visit const& visit) const {
        auto const fits = [&](std::size_t end,
                              double ns,
                              std::int64_t kept_bytes,
                              std::int64_t bytes) {
            std::int64_t const kept = slots_of(kept_bytes);
            return bytes <= room_bytes_ && kept <= slots_ &&
                   visit(Choice{
                       end, ns, kept, std::min((room_bytes_ - bytes) / slot_bytes_, slots_ - kept)}
                   );
        };
        std::int64_t const own_bytes = whole_bytes(stages_[i]);
        if (!fits(i, 0, own_bytes, own_bytes + stages_[i].beside_bytes)) {
            return;
        }
        std::int64_t kept_bytes = stages_[i].input_bytes;
        std::int64_t bytes = 0;
        std::int64_t most_bytes = 0;  // with what is beside, as backward has it
        std::int64_t ns = 0;
        for (std::size_t j = i; j < stages_.size(); ++j) {
            bytes += whole_bytes(stages_[j]);
            most_bytes = std::max(most_bytes, bytes + stages_[j].beside_bytes);
            kept_bytes += j == i ? stages_[j].other_bytes : bytes_kept_inside(stages_[j]);
            ns += j == i ? stages_[j].tape_ns : remake_inside_ns(stages_[j]);
            if (bytes > segment_bytes_ ||
                !fits(j + 1, static_cast<double>(ns), kept_bytes, most_bytes)) {
                break;
            }
        }
    }

    [[nodiscard]] double const* rest_of(std::size_t i, Choice const& choice) const {
        return best_ns_.data() + std::max(i + 1, choice.end) * width() + choice.kept;
    }

    void fill(std::size_t i) {
        double* const best_ns = best_ns_.data() + i * width();
        each_choice(i, [&](Choice const& choice) {
            if (choice.own_ns >= best_ns[choice.most_held]) {
                return false;  // what takes more time, and may hold less before it, is no better
            }
            double const* const rest_ns = rest_of(i, choice);
            // Where more is held the rest takes no less: what is as quick as this at its quickest
            // comes first.
            double const* const from = std::upper_bound(
                best_ns, best_ns + choice.most_held + 1, choice.own_ns + rest_ns[0]
            );
            take_less(from - best_ns, choice, rest_ns, best_ns);
            return true;
        });
    }

    /// By blocks, which the compiler makes vectors of: most of a plan's time is spent here.
    static void take_less(
        std::int64_t held, Choice const& choice, double const* rest_ns, double* best_ns
    ) {
        constexpr std::int64_t kBlock = 8;
        std::int64_t const end = choice.most_held + 1;
        for (; held + kBlock <= end; held += kBlock) {
            std::array<double, kBlock> less;
            for (std::size_t k = 0; k < kBlock; ++k) {
                double const ns = rest_ns[held + static_cast<std::int64_t>(k)] + choice.own_ns;
                double const before = best_ns[held + static_cast<std::int64_t>(k)];
                less[k] = ns < before ? ns : before;
            }
            std::copy(less.begin(), less.end(), best_ns + held);
        }
        for (; held < end; ++held) {
            best_ns[held] = std::min(best_ns[held], rest_ns[held] + choice.own_ns);
        }
    }

    /// The first that takes what the best one takes.
    [[nodiscard]] Choice best_choice(std::size_t i, std::int64_t held) const {
        double const best_ns = best_ns_[i * width() + static_cast<std::size_t>(held)];
        Choice best;
        each_choice(i, [&](Choice const& choice) {
            best = choice;
            return held > choice.most_held || rest_of(i, choice)[held] + choice.own_ns != best_ns;
        });
        return best;
    }

    std::vector<Stage> const& stages_;
    std::int64_t const room_bytes_;
    std::int64_t const slot_bytes_;
    std::int64_t const slots_;
    std::int64_t const segment_bytes_;
    /// By stage and slots held before it. Whole numbers, which a double has exactly up to a step of
    /// a hundred days.
    std::vector<double> best_ns_;
};

}  // namespace

std::optional<std::vector<StageFate>> rotor_fates(
    std::vector<Stage> const& stages,
    std::int64_t room_bytes,
    std::int64_t segment_bytes,
    std::int64_t slots
) {
    return RotorTable(stages, room_bytes, segment_bytes, slots).fates();
}

ChainCosts chain_costs(std::vector<Stage> const& stages, std::vector<StageFate> const& fates) {
    ChainCosts costs;
    std::int64_t held_bytes = 0;
    for (std::size_t i = 0; i < stages.size();) {
        std::size_t end = i + 1;
        while (end < stages.size() && fates[end] == StageFate::inner) {
            ++end;
        }
        std::int64_t bytes = 0;
        std::int64_t most_bytes = 0;
        std::int64_t kept_bytes = stages[i].input_bytes + stages[i].other_bytes;
        std::int64_t ns = stages[i].tape_ns;
        for (std::size_t j = i; j < end; ++j) {
            bytes += whole_bytes(stages[j]);
            most_bytes = std::max(most_bytes, bytes + stages[j].beside_bytes);
            kept_bytes += j == i ? 0 : bytes_kept_inside(stages[j]);
            ns += j == i ? 0 : remake_inside_ns(stages[j]);
        }
        bool const is_kept = fates[i] == StageFate::keep;
        costs.peak_bytes = std::max(costs.peak_bytes, held_bytes + most_bytes);
        costs.recompute_ns += is_kept ? 0 : ns;
        held_bytes += is_kept ? whole_bytes(stages[i]) : kept_bytes;
        i = end;
    }
    return costs;
}

Result<Plan> plan_rotor(PlanRequest const& request) {
    StepView const step(request.trace);
    Result<std::vector<Stage>> stages = stages_with_recipes(step);
    if (!stages.ok()) {
        return stages.error();
    }
    stages->push_back(end_stage(step, *stages));
    std::int64_t const all_bytes = whole_bytes(*stages) + most_bytes_beside(*stages);
    ShortChain const chain = shortened(*stages, kMostRotorStages);
    // Each stage rounds up, by a slot at most: an eighth in all, where there is room for all.
    auto const count = static_cast<std::int64_t>(chain.stages.size());
    std::int64_t const most_bytes = all_bytes + all_bytes / 8 + count;
    std::int64_t const slots = std::max(kSlots, std::min(8 * count, kMostSlots));
    std::vector<StageFate> least(stages->size(), StageFate::checkpoint);
    return quickest_plan_that_fits(request, step, *stages, [&](std::int64_t room_bytes) {
        std::int64_t const room = std::min(room_bytes, most_bytes);
        if (auto fates = rotor_fates(chain.stages, room, most_segment_bytes(request), slots)) {
            least = chain.fates_of_all(*fates);
        }
        return least;  // of less room than it needs, as before
    });
}

}  // namespace spillway
