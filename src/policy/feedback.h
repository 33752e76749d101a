// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Feedback: which plan runs next, by what the present one waited for. A session asks at a step's
// boundary, with what it measured; `make_plan` in virtual time.
#pragma once

#include "policy/planner.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace spillway {

/// Note [Rounds of feedback]
/// One round: the present plan has run, its late returns go to the policy, and the plan that comes
/// of it runs next. A plan that took no less than the one before is taken back, and that ends it;
/// so do waits below a hundredth of the step, a policy that leaves the plan as it is or refuses,
/// and eight rounds. All three are choices: the papers say that a plan is mended as it runs.
///
/// Thread  not thread-safe. No clock: the same times give the same plans
class Feedback {
  public:
    static constexpr std::int64_t kMostRounds = 8;
    static constexpr std::int64_t kWaitsShare = 100;  ///< of the step, one in so many is too much

    /// Mends a plan that has run; an error ends the rounds.
    using Mend = std::function<Result<Plan>(PlanRan const&)>;

    explicit Feedback(Plan first) : present_{std::move(first)} {}

    /// A step of the present plan took so long and waited so. The plan to run from here on: a
    /// mended one, or the one before; none: the present one goes on.
    [[nodiscard]] std::optional<Plan> took(
        std::int64_t step_ns, ReturnWaits waits_ns, Mend const& mend
    );

    /// Nothing changes any more.
    [[nodiscard]] bool is_done() const { return is_done_; }
    /// Plans that were made of waits, those taken back included.
    [[nodiscard]] std::int64_t rounds() const { return rounds_; }

  private:
    PlanRan present_;
    std::optional<Plan> before_;
    std::int64_t before_ns_ = 0;
    std::int64_t rounds_ = 0;
    bool is_done_ = false;
};

}  // namespace spillway
