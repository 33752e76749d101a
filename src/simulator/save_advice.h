// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The advice for a value that is saved, from the driver's rule and from the plan.
#pragma once

#include "executor/executor_options.h"
#include "plan/plan.h"
#include "simulator/simulator.h"

namespace spillway {

/// Thread  re-entrant
class SaveAdvice {
  public:
    /// All outlive it.
    SaveAdvice(ExecutorOptions const& options, SimulatorOptions const& how, Plan const* plan)
        : options_(options), how_(how), plan_(plan) {}

    [[nodiscard]] RuleAnswer rule_of(Slot const& slot) const {
        auto const found = how_.rule.find(slot);
        return found == how_.rule.end() ? RuleAnswer{} : found->second;
    }
    /// The plan overrides the rule.
    [[nodiscard]] Advice advice_of(Slot const& slot) const {
        if (options_.chooser == ChooserKind::keep_all) {
            return Advice::never;
        }
        if (options_.chooser == ChooserKind::planned && plan_ != nullptr) {
            auto const fate = plan_->fates.find(slot);
            if (fate != plan_->fates.end()) {
                FateKind const kind = fate->second.kind;
                return kind == FateKind::keep   ? Advice::last_resort
                       : kind == FateKind::move ? Advice::at_once
                                                : Advice::when_asked;
            }
        }
        return rule_of(slot).advice;
    }

  private:
    ExecutorOptions const& options_;
    SimulatorOptions const& how_;
    Plan const* plan_;
};

}  // namespace spillway
