// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/rotor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace spillway {

namespace {

constexpr std::int64_t kNoWay = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::int64_t kSlots = 500;  ///< theirs
constexpr std::int64_t kMostSlots = 2000;

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
        segment_ends_.resize((stages.size() + 1) * width());
        std::fill(best_ns_.end() - static_cast<std::ptrdiff_t>(width()), best_ns_.end(), 0);
        for (std::size_t i = stages.size(); i-- > 0;) {
            fill(i);
        }
    }

    [[nodiscard]] std::optional<std::vector<StageFate>> fates() const {
        if (best_ns_.front() >= kNoWay) {
            return std::nullopt;
        }
        std::vector<StageFate> fates;
        std::int64_t held = 0;
        for (std::size_t i = 0; i < stages_.size();) {
            std::size_t const end = segment_ends_[i * width() + static_cast<std::size_t>(held)];
            held += slots_of(bytes_kept(i, end));
            fates.push_back(end == i ? StageFate::keep : StageFate::checkpoint);
            for (i = std::max(i + 1, end); fates.size() < i;) {
                fates.push_back(StageFate::inner);
            }
        }
        return fates;
    }

  private:
    [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(slots_) + 1; }
    [[nodiscard]] std::int64_t slots_of(std::int64_t bytes) const {
        return (bytes + slot_bytes_ - 1) / slot_bytes_;
    }
    /// What stays of a segment up to `end`; of the whole stage where that is `i` itself.
    [[nodiscard]] std::int64_t bytes_kept(std::size_t i, std::size_t end) const {
        if (end == i) {
            return whole_bytes(stages_[i]);
        }
        std::int64_t bytes = stages_[i].input_bytes + stages_[i].other_bytes;
        for (std::size_t j = i + 1; j < end; ++j) {
            bytes += bytes_kept_inside(stages_[j]);
        }
        return bytes;
    }

    /// Offers every count of held slots of stage i to go on behind `next` with `kept_bytes` more,
    /// where `bytes` fit beside them for a while. Of equal offers the first stays.
    void offer(
        std::size_t i,
        std::size_t end,
        std::int64_t own_ns,
        std::int64_t kept_bytes,
        std::int64_t bytes
    ) {
        std::int64_t const kept = slots_of(kept_bytes);
        if (bytes > room_bytes_ || kept > slots_) {
            return;
        }
        std::int64_t const most_held = std::min((room_bytes_ - bytes) / slot_bytes_, slots_ - kept);
        std::int64_t const* const rest_ns = best_ns_.data() + std::max(i + 1, end) * width() + kept;
        std::int64_t* const best_ns = best_ns_.data() + i * width();
        std::uint32_t* const ends = segment_ends_.data() + i * width();
        for (std::int64_t held = 0; held <= most_held; ++held) {
            std::int64_t const ns = rest_ns[held] + own_ns;
            bool const is_better = ns < best_ns[held];
            best_ns[held] = is_better ? ns : best_ns[held];
            ends[held] = is_better ? static_cast<std::uint32_t>(end) : ends[held];
        }
    }

    void fill(std::size_t i) {
        std::int64_t const own_bytes = whole_bytes(stages_[i]);
        offer(i, i, 0, own_bytes, own_bytes + stages_[i].beside_bytes);
        std::int64_t kept_bytes = stages_[i].input_bytes;
        std::int64_t bytes = 0;
        std::int64_t most_bytes = 0;  // with what is beside, as backward has it
        std::int64_t ns = 0;
        for (std::size_t j = i; j < stages_.size(); ++j) {
            bytes += whole_bytes(stages_[j]);
            most_bytes = std::max(most_bytes, bytes + stages_[j].beside_bytes);
            kept_bytes += j == i ? stages_[j].other_bytes : bytes_kept_inside(stages_[j]);
            ns += j == i ? stages_[j].tape_ns : remake_inside_ns(stages_[j]);
            if (most_bytes > room_bytes_ || bytes > segment_bytes_) {
                break;
            }
            offer(i, j + 1, ns, kept_bytes, most_bytes);
        }
    }

    std::vector<Stage> const& stages_;
    std::int64_t const room_bytes_;
    std::int64_t const slot_bytes_;
    std::int64_t const slots_;
    std::int64_t const segment_bytes_;
    std::vector<std::int64_t> best_ns_;        ///< by stage and slots held before it
    std::vector<std::uint32_t> segment_ends_;  ///< of the segment that begins there; the stage
                                               ///< itself: its tape stays
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
    // Each stage rounds up, by a slot at most: an eighth in all, where there is room for all.
    auto const count = static_cast<std::int64_t>(stages->size());
    std::int64_t const most_bytes = all_bytes + all_bytes / 8 + count;
    std::int64_t const slots = std::max(kSlots, std::min(8 * count, kMostSlots));
    std::vector<StageFate> least(stages->size(), StageFate::checkpoint);
    return quickest_plan_that_fits(request, step, *stages, [&](std::int64_t room_bytes) {
        std::int64_t const room = std::min(room_bytes, most_bytes);
        if (auto fates = rotor_fates(*stages, room, most_segment_bytes(request), slots)) {
            least = std::move(*fates);
        }
        return least;  // of less room than it needs, as before
    });
}

}  // namespace spillway
