// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/pofo.h"

#include "policy/forecast.h"
#include "policy/rotor.h"
#include "policy/short_chain.h"
#include "policy/transfer_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace spillway {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A chain of more than twice as many is shortened: a choice, so that a plan of 1,000 stages takes
/// less than a second.
constexpr std::size_t kMostPofoStages = 100;

/// Theirs has 50 slots; a longer chain has fewer here, so that a plan takes less than a second.
std::int64_t slots_for(std::size_t stages) {
    return std::clamp<std::int64_t>(
        960 / std::max<std::int64_t>(1, static_cast<std::int64_t>(stages)), 6, 24
    );
}

/// Segments that are looked at in all, which bounds memory and time; and the longest from each
/// stage at least.
constexpr std::size_t kMostSegments = 250'000;
constexpr std::size_t kFewestInSegment = 100;

/// In slots: what stays until its backward, what is still to leave, and what backward will still
/// have to fetch.
struct Queue {
    std::int64_t held = 0;
    std::int64_t to_leave = 0;
    std::int64_t to_fetch = 0;
};

/// One stage or segment. Numbers are slots, but for a time.
struct Part {
    std::size_t end = 0;
    StageFate fate = StageFate::keep;  ///< of its first stage; others are `inner`
    double kept = 0;
    double moved = 0;
    double leaves = 0;  ///< that the link moves during its forward
    double returns = 0;
    double whole = 0;         ///< at once, in its backward, with what is beside
    double forward_most = 0;  ///< at once, in its forward
    double remake_ns = 0;
};

/// Whole numbers whose sums from the first on are those of `amounts`, rounded: sums over stages in
/// a row are off by one at most, however many they are.
std::vector<double> rounded_in_sum(std::vector<double> const& amounts) {
    std::vector<double> rounded;
    double sum = 0;
    double before = 0;
    for (double const amount : amounts) {
        sum += amount;
        rounded.push_back(std::round(sum) - before);
        before = std::round(sum);
    }
    return rounded;
}

class PofoTable {
  public:
    explicit PofoTable(PofoProblem const& problem)
        : problem_(problem),
          slot_bytes_(std::max(
              1.0,
              std::ceil(
                  static_cast<double>(problem.room_bytes) / static_cast<double>(problem.slots)
              )
          )),
          slots_(static_cast<std::int64_t>(static_cast<double>(problem.room_bytes) / slot_bytes_)),
          ns_a_slot_(problem.rate > 0 ? slot_bytes_ * 1e9 / problem.rate : 0),
          parts_(problem.stages.size()),
          known_(parts_.size() * cube(slots_ + 1)) {
        auto const slots_of_each = [&](auto const& amount_of) {
            std::vector<double> amounts;
            for (Stage const& stage : problem.stages) {
                amounts.push_back(amount_of(stage));
            }
            return problem.rounds_up ? amounts : rounded_in_sum(amounts);
        };
        inputs_ = slots_of_each([&](Stage const& stage) { return slots_of(stage.input_bytes); });
        tapes_ = slots_of_each([&](Stage const& stage) { return slots_of(stage.tape_bytes); });
        others_ = slots_of_each([&](Stage const& stage) { return slots_of(stage.other_bytes); });
        leaves_ = slots_of_each([&](Stage const& stage) { return crossing(stage.forward_ns); });
        returns_ = slots_of_each([&](Stage const& stage) { return crossing(stage.backward_ns); });
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            add_parts(i);
        }
    }

    [[nodiscard]] std::optional<PofoAnswer> answer() {
        PofoAnswer answer{{}, best_from(0, {}).ns};
        if (answer.extra_ns == kNever) {
            return std::nullopt;
        }
        Queue queue;
        for (std::size_t i = 0; i < parts_.size();) {
            Part const& part = parts_[i][best_from(i, queue).part];
            answer.fates.push_back(part.fate);
            answer.fates.resize(part.end, StageFate::inner);
            (void)pass(part, queue);
            i = part.end;
        }
        return answer;
    }

  private:
    struct Best {
        double ns = kNever;
        std::size_t part = 0;
    };

    static std::size_t cube(std::int64_t width) {
        return static_cast<std::size_t>(width * width * width);
    }
    [[nodiscard]] double slots_of(std::int64_t bytes) const {
        return static_cast<double>(bytes) / slot_bytes_;
    }
    /// Rounds up. Without std::ceil, which is a call and half of a plan's time; `slots` is not
    /// negative.
    static std::int64_t whole_slots(double slots) {
        double const least = slots - 1e-9;
        auto const whole = static_cast<std::int64_t>(least);
        return whole + (static_cast<double>(whole) < least ? 1 : 0);
    }
    [[nodiscard]] bool can_move() const { return ns_a_slot_ > 0; }
    /// Slots that the link moves in that time.
    [[nodiscard]] double crossing(std::int64_t ns) const {
        return can_move() ? static_cast<double>(ns) / ns_a_slot_ : 0;
    }

    void add_parts(std::size_t i) {
        Stage const& first = problem_.stages[i];
        double const most = slots_of(whole_bytes(first) + first.beside_bytes);
        Part alone{
            .end = i + 1,
            .kept = inputs_[i] + tapes_[i] + others_[i],
            .leaves = leaves_[i],
            .returns = returns_[i],
            .whole = most,
            .forward_most = most};
        parts_[i].push_back(alone);
        if (can_move()) {
            std::swap(alone.kept, alone.moved);
            alone.fate = StageFate::move;
            parts_[i].push_back(alone);
        }
        add_segments(i);
    }

    /// A segment has fewer stages where there are many.
    [[nodiscard]] std::size_t segment_end(std::size_t i) const {
        std::size_t const count = problem_.stages.size();
        return std::min(count, i + std::max(kFewestInSegment, kMostSegments / count));
    }

    void add_segments(std::size_t i) {
        Part part{.fate = StageFate::checkpoint};
        Stage const& first = problem_.stages[i];
        double inside = 0;  // slots that stay, beside the input
        std::int64_t inside_bytes = 0;
        std::int64_t bytes = 0;
        for (std::size_t j = i; j < segment_end(i); ++j) {
            Stage const& stage = problem_.stages[j];
            bool const is_first = j == i;
            bytes += whole_bytes(stage);
            if (bytes > problem_.segment_bytes) {
                return;
            }
            inside += others_[j] + (is_first || stage.input_has_recipe ? 0 : inputs_[j]);
            inside_bytes += is_first ? stage.other_bytes : bytes_kept_inside(stage);
            std::int64_t const remake_ns = is_first ? stage.tape_ns : remake_inside_ns(stage);
            part.end = j + 1;
            part.whole = std::max(part.whole, slots_of(bytes + stage.beside_bytes));
            part.forward_most = std::max(
                part.forward_most,
                slots_of(first.input_bytes + inside_bytes + stage.tape_bytes + stage.beside_bytes)
            );
            part.leaves += leaves_[j];
            part.returns += returns_[j] + crossing(remake_ns);
            part.remake_ns += static_cast<double>(remake_ns);
            part.kept = inputs_[i] + inside;
            part.moved = 0;
            part.fate = StageFate::checkpoint;
            parts_[i].push_back(part);
            if (can_move() && first.input) {
                part.moved = inputs_[i];
                part.kept = inside;
                part.fate = StageFate::move_input;
                parts_[i].push_back(part);
            }
        }
    }

    /// Through the part's forward, and back through its backward. Returns the extra time; what
    /// cannot fit takes forever.
    [[nodiscard]] double pass(Part const& part, Queue& queue) const {
        double const room = static_cast<double>(slots_ - queue.held);
        if (part.whole > room || part.forward_most > room) {
            return kNever;
        }
        auto const after = [&](std::int64_t waiting, double use, double crossed, double& idle) {
            auto const before = static_cast<double>(waiting);
            idle = std::max(0.0, use - (room - before));
            return whole_slots(std::max(0.0, before - crossed - idle) + part.moved);
        };
        double idle_out = 0;
        double idle_in = 0;
        queue.to_leave = after(queue.to_leave, part.forward_most, part.leaves, idle_out);
        queue.to_fetch = after(queue.to_fetch, part.whole, part.returns, idle_in);
        queue.held += whole_slots(part.kept);
        if (queue.held + std::max(queue.to_leave, queue.to_fetch) > slots_) {
            return kNever;
        }
        return part.remake_ns + (idle_out + idle_in) * ns_a_slot_;
    }

    [[nodiscard]] Best best_from(std::size_t i, Queue const& queue) {
        if (i == parts_.size()) {
            return {static_cast<double>(queue.to_leave + queue.to_fetch) * ns_a_slot_, 0};
        }
        std::int64_t const width = slots_ + 1;
        std::int64_t const key =
            ((static_cast<std::int64_t>(i) * width + queue.held) * width + queue.to_leave) * width +
            queue.to_fetch;
        if (std::optional<Best> const& known = known_[static_cast<std::size_t>(key)]) {
            return *known;
        }
        Best best;
        for (std::size_t k = 0; k < parts_[i].size(); ++k) {
            // Later ones are longer, and take no less.
            Part const& part = parts_[i][k];
            if (part.remake_ns >= best.ns ||
                part.whole > static_cast<double>(slots_ - queue.held)) {
                break;
            }
            Queue next = queue;
            double const own_ns = pass(part, next);
            if (own_ns >= best.ns) {
                continue;
            }
            double const ns = own_ns + best_from(part.end, next).ns;
            if (ns < best.ns) {
                best = {ns, k};
            }
        }
        known_[static_cast<std::size_t>(key)] = best;
        return best;
    }

    PofoProblem const& problem_;
    double const slot_bytes_;
    std::int64_t const slots_;
    double const ns_a_slot_;
    std::vector<double> inputs_;  ///< by stage, slots
    std::vector<double> tapes_;
    std::vector<double> others_;
    std::vector<double> leaves_;  ///< that the link moves during its forward
    std::vector<double> returns_;
    std::vector<std::vector<Part>> parts_;    ///< that begin at each stage
    std::vector<std::optional<Best>> known_;  ///< by stage and queue
};

}  // namespace

std::optional<PofoAnswer> pofo_fates(PofoProblem const& problem) {
    return PofoTable(problem).answer();
}

namespace {

Result<Plan> plan_at_rate(
    PlanRequest const& request,
    StepView const& step,
    std::vector<Stage> const& stages,
    double rate,
    bool rounds_up
) {
    ShortChain const chain = shortened(stages, kMostPofoStages);
    PofoProblem problem{
        .stages = chain.stages,
        .segment_bytes = most_segment_bytes(request),
        .rate = rate,
        .slots = slots_for(chain.stages.size()),
        .rounds_up = rounds_up};
    std::vector<StageFate> least(stages.size(), rate > 0 ? StageFate::move : StageFate::checkpoint);
    return quickest_plan_that_fits(request, step, stages, [&](std::int64_t room_bytes) {
        problem.room_bytes =
            std::min(room_bytes, 2 * (whole_bytes(stages) + most_bytes_beside(stages)));
        if (std::optional<PofoAnswer> answer = pofo_fates(problem)) {
            least = chain.fates_of_all(answer->fates);
        }
        return least;
    });
}

/// As simulated.
bool is_quicker(PlanRequest const& request, Plan const& plan, Plan const& than) {
    Result<Forecast> const one = forecast(request, request.budgets, plan);
    Result<Forecast> const other = forecast(request, request.budgets, than);
    return one.ok() && other.ok() && one->fits && (!other->fits || one->step_ns < other->step_ns);
}

}  // namespace

Result<Plan> plan_pofo(PlanRequest const& request) {
    StepView const step(request.trace);
    Result<std::vector<Stage>> stages = stages_with_recipes(step);
    if (!stages.ok()) {
        return stages.error();
    }
    stages->push_back(end_stage(step, *stages));
    TransferRates const rates = transfer_rates(request.machine, request.pool());
    double const rate = std::min(rates.out, rates.in);
    Result<Plan> best = plan_at_rate(request, step, *stages, rate, true);
    for (Result<Plan>& other :
         std::array{plan_at_rate(request, step, *stages, rate, false), plan_rotor(request)}) {
        if (best.ok() && other.ok() && is_quicker(request, *other, *best)) {
            best = std::move(other);
        }
    }
    return best;
}

}  // namespace spillway
