// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/plan_times.h"

namespace spillway {

void PlanTimes::take_plan(Plan const& plan) {
    numbers_.clear();
    places_.clear();
    for (auto const& [slot, fate] : plan.fates) {
        if (fate.kind == FateKind::keep || (!fate.leaves && !fate.returns)) {
            continue;
        }
        std::int32_t const own = add(slot);
        if (fate.leaves) {
            std::int32_t const time = add(*fate.leaves);
            places_[static_cast<std::size_t>(time)].leaving.push_back(own);
            places_[static_cast<std::size_t>(own)].has_leave = true;
        }
        if (fate.returns) {
            std::int32_t const time = add(*fate.returns);
            places_[static_cast<std::size_t>(time)].returning.push_back(own);
            places_[static_cast<std::size_t>(own)].has_return = true;
        }
    }
}

std::int32_t PlanTimes::place_of(Slot const& slot) const {
    auto const found = numbers_.find(slot);
    return found == numbers_.end() ? kNoPlace : found->second;
}

std::int32_t PlanTimes::add(Slot const& slot) {
    auto const [at, is_new] = numbers_.emplace(slot, static_cast<std::int32_t>(places_.size()));
    if (is_new) {
        places_.emplace_back();
    }
    return at->second;
}

std::vector<ValueId> PlanTimes::values_of(std::vector<std::int32_t> const& places) const {
    std::vector<ValueId> values;
    for (std::int32_t const place : places) {
        if (ValueId const value = at(place).value; value.valid()) {
            values.push_back(value);
        }
    }
    return values;
}

}  // namespace spillway
