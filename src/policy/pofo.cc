// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/pofo.h"

#include "policy/forecast.h"
#include "policy/rotor.h"
#include "policy/transfer_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace spillway {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Theirs has 50 slots; a longer chain has fewer here, so that a plan takes less than a second.
std::int64_t slots_for(std::size_t stages) {
    return std::clamp<std::int64_t>(
        960 / std::max<std::int64_t>(1, static_cast<std::int64_t>(stages)), 6, 24
    );
}

/// In slots: what stays until its backward, what is still to leave, and what backward will still
/// have to fetch.
struct Queue {
    std::int64_t held = 0;
    std::int64_t to_leave = 0;
    std::int64_t to_fetch = 0;
};

/// One stage or segment.
struct Part {
    std::size_t end = 0;
    StageFate fate = StageFate::keep;  ///< of its first stage; others are `inner`
    double kept = 0;                   ///< slots
    double moved = 0;
    double whole = 0;  ///< at once, in its backward
    double forward_ns = 0;
    double backward_ns = 0;  ///< with what is made again
    double remake_ns = 0;
    double forward_most = 0;  ///< at once, in its forward
};

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
    [[nodiscard]] bool can_move() const { return ns_a_slot_ > 0; }

    void add_parts(std::size_t i) {
        Stage const& first = problem_.stages[i];
        Part alone{
            .end = i + 1,
            .kept = slots_of(whole_bytes(first)),
            .whole = slots_of(whole_bytes(first)),
            .forward_ns = static_cast<double>(first.forward_ns),
            .backward_ns = static_cast<double>(first.backward_ns),
            .forward_most = slots_of(whole_bytes(first))};
        parts_[i].push_back(alone);
        if (can_move()) {
            std::swap(alone.kept, alone.moved);
            alone.fate = StageFate::move;
            parts_[i].push_back(alone);
        }
        add_segments(i);
    }

    void add_segments(std::size_t i) {
        Part part{.fate = StageFate::checkpoint};
        std::int64_t inside_bytes = 0;
        std::int64_t bytes = 0;
        for (std::size_t j = i; j < problem_.stages.size(); ++j) {
            Stage const& stage = problem_.stages[j];
            bool const is_first = j == i;
            bytes += whole_bytes(stage);
            if (bytes > problem_.segment_bytes) {
                return;
            }
            inside_bytes += is_first ? stage.other_bytes : bytes_kept_inside(stage);
            auto const remake_ns =
                static_cast<double>(is_first ? stage.tape_ns : remake_inside_ns(stage));
            part.end = j + 1;
            part.whole = slots_of(bytes);
            part.forward_most = std::max(
                part.forward_most,
                slots_of(problem_.stages[i].input_bytes + inside_bytes + stage.tape_bytes)
            );
            part.forward_ns += static_cast<double>(stage.forward_ns);
            part.remake_ns += remake_ns;
            part.backward_ns += static_cast<double>(stage.backward_ns) + remake_ns;
            part.kept = slots_of(problem_.stages[i].input_bytes + inside_bytes);
            part.moved = 0;
            part.fate = StageFate::checkpoint;
            parts_[i].push_back(part);
            if (can_move() && problem_.stages[i].input) {
                part.moved = slots_of(problem_.stages[i].input_bytes);
                part.kept = slots_of(inside_bytes);
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
        auto const after = [&](double waiting, double use, double ns, double& idle) {
            idle = std::max(0.0, use - (room - waiting));
            double const hidden = can_move() ? ns / ns_a_slot_ : 0;
            return std::max(0.0, waiting - hidden - idle) + part.moved;
        };
        double idle_out = 0;
        double idle_in = 0;
        double const leave = after(
            static_cast<double>(queue.to_leave), part.forward_most, part.forward_ns, idle_out
        );
        double const fetch =
            after(static_cast<double>(queue.to_fetch), part.whole, part.backward_ns, idle_in);
        queue.held += static_cast<std::int64_t>(std::ceil(part.kept - 1e-9));
        queue.to_leave = static_cast<std::int64_t>(std::ceil(leave - 1e-9));
        queue.to_fetch = static_cast<std::int64_t>(std::ceil(fetch - 1e-9));
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
    std::vector<std::vector<Part>> parts_;    ///< that begin at each stage
    std::vector<std::optional<Best>> known_;  ///< by stage and queue
};

}  // namespace

std::optional<PofoAnswer> pofo_fates(PofoProblem const& problem) {
    return PofoTable(problem).answer();
}

namespace {

Result<Plan> plan_at_rate(
    PlanRequest const& request, StepView const& step, std::vector<Stage> const& stages, double rate
) {
    PofoProblem problem{
        .stages = stages,
        .segment_bytes = most_segment_bytes(request),
        .rate = rate,
        .slots = slots_for(stages.size())};
    std::vector<StageFate> least(stages.size(), rate > 0 ? StageFate::move : StageFate::checkpoint);
    return first_plan_that_fits(request, step, stages, [&](std::int64_t room_bytes) {
        problem.room_bytes = std::min(room_bytes, 2 * whole_bytes(stages));
        if (std::optional<PofoAnswer> answer = pofo_fates(problem)) {
            least = std::move(answer->fates);
        }
        return least;
    });
}

}  // namespace

Result<Plan> plan_pofo(PlanRequest const& request) {
    StepView const step(request.trace);
    Result<std::vector<Stage>> const stages = stages_with_recipes(step);
    if (!stages.ok()) {
        return stages.error();
    }
    TransferRates const rates = transfer_rates(request.machine, request.pool());
    Result<Plan> moving = plan_at_rate(request, step, *stages, std::min(rates.out, rates.in));
    Result<Plan> alone = plan_rotor(request);
    if (!moving.ok() || !alone.ok()) {
        return moving;
    }
    Result<Forecast> const one = forecast(request, request.budgets, *moving);
    Result<Forecast> const other = forecast(request, request.budgets, *alone);
    bool const is_better =
        one.ok() && other.ok() && other->fits && (!one->fits || other->step_ns < one->step_ns);
    return is_better ? alone : moving;
}

}  // namespace spillway
