// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The advice for a value that is saved, from the driver's rule and from the plan.
#pragma once

#include "executor/executor_options.h"
#include "plan/plan.h"
#include "plan/planned_codec.h"
#include "simulator/simulator.h"
#include "trace/trace.h"

#include <cstdint>

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
    /// What it takes outside the device; 0: it goes as it is. A codec of the plan overrides the
    /// rule.
    [[nodiscard]] std::int64_t encoded_bytes_of(TraceValue const& value) const {
        Fate const* const fate = fate_of(value.slot);
        if (fate == nullptr || fate->codec.empty()) {
            return rule_of(value.slot).encoded_bytes;
        }
        std::int64_t const bytes = away_bytes(*fate, value);
        return bytes < value.size_bytes ? bytes : 0;
    }
    /// The plan overrides the rule.
    [[nodiscard]] Advice advice_of(Slot const& slot) const {
        if (options_.chooser == ChooserKind::keep_all) {
            return Advice::never;
        }
        if (Fate const* const fate = fate_of(slot)) {
            return fate->kind == FateKind::keep   ? Advice::last_resort
                   : fate->kind == FateKind::move ? Advice::at_once
                                                  : Advice::when_asked;
        }
        return rule_of(slot).advice;
    }

  private:
    /// Null: no plan knows it.
    [[nodiscard]] Fate const* fate_of(Slot const& slot) const {
        if (options_.chooser != ChooserKind::planned || plan_ == nullptr) {
            return nullptr;
        }
        auto const fate = plan_->fates.find(slot);
        return fate == plan_->fates.end() ? nullptr : &fate->second;
    }

    ExecutorOptions const& options_;
    SimulatorOptions const& how_;
    Plan const* plan_;
};

}  // namespace spillway
