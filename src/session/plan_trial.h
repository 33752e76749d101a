// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The trial of a plan that is mended as it runs: its steps' times, and what they waited for, become
// the next plan (policy/feedback.h). Free of clocks and threads: it is told all that it knows.
#pragma once

#include "base/ids.h"
#include "policy/feedback.h"
#include "trace/slot.h"

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace spillway {

/// Thread  not thread-safe
class PlanTrial {
  public:
    /// Steps of each plan that are looked at. The first is not counted: values of the plan before
    /// may still be about. Of the others the quicker one is.
    static constexpr int kSteps = 3;

    /// `first` runs from here on.
    PlanTrial(Plan first, Feedback::Mend mend)
        : feedback_(std::move(first)), mend_(std::move(mend)) {}

    /// Which slot a value of this step has.
    void saved(ValueId value, Slot const& slot) { slots_.emplace(value, slot); }

    /// A step has ended that took so long, and waited so for values to return, its own or those of
    /// the step before. A plan that is to run from now on; none: the present one goes on. A step
    /// that saved nothing is no step.
    [[nodiscard]] std::optional<Plan> step_ended(
        std::int64_t took_ns, std::map<ValueId, std::int64_t> const& waits_ns
    );

    /// There is no more to be told.
    [[nodiscard]] bool is_done() const { return feedback_.is_done(); }
    [[nodiscard]] std::int64_t rounds() const { return feedback_.rounds(); }

  private:
    Feedback feedback_;
    Feedback::Mend const mend_;
    std::unordered_map<ValueId, Slot> slots_;         ///< of this step
    std::unordered_map<ValueId, Slot> slots_before_;  ///< of the one before
    int steps_ = 0;                                   ///< of the present plan
    std::int64_t quickest_ns_ = 0;
    ReturnWaits waits_ns_;  ///< that step's
};

}  // namespace spillway
