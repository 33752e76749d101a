// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/plan_trial.h"

namespace spillway {

std::optional<Plan> PlanTrial::step_ended(
    std::int64_t took_ns, std::map<ValueId, std::int64_t> const& waits_ns
) {
    if (is_done() || slots_.empty()) {
        return std::nullopt;
    }
    std::unordered_map<ValueId, Slot> slots = std::exchange(slots_before_, {});
    slots_before_ = std::exchange(slots_, {});
    slots.insert(slots_before_.begin(), slots_before_.end());
    ++steps_;
    if (steps_ == 2 || (steps_ > 2 && took_ns < quickest_ns_)) {
        quickest_ns_ = took_ns;
        waits_ns_.clear();
        for (auto const& [value, waited_ns] : waits_ns) {
            if (auto const slot = slots.find(value); slot != slots.end()) {
                waits_ns_[slot->second] += waited_ns;
            }
        }
    }
    if (steps_ < kSteps) {
        return std::nullopt;
    }
    steps_ = 0;
    return feedback_.took(quickest_ns_, waits_ns_, mend_);
}

}  // namespace spillway
