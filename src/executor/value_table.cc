// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/value_table.h"

#include "base/assert.h"

#include <utility>

namespace spillway {

Value& ValueTable::add(ValueId id, Value value) {
    auto const [at, is_new] = values_.emplace(id, std::move(value));
    SPILLWAY_ASSERT(is_new, "a value is saved once");
    file(id, at->second);
    return at->second;
}

Value* ValueTable::find(ValueId id) {
    auto const at = values_.find(id);
    return at == values_.end() ? nullptr : &at->second;
}

Value const* ValueTable::find(ValueId id) const {
    auto const at = values_.find(id);
    return at == values_.end() ? nullptr : &at->second;
}

void ValueTable::erase(ValueId id) {
    auto const at = values_.find(id);
    SPILLWAY_ASSERT(at != values_.end(), "only live values end");
    take_out(id, at->second);
    look_again_at_users(at->second);
    values_.erase(at);
}

std::int64_t ValueTable::held_bytes_from(ValueId first) const {
    std::int64_t bytes = 0;
    for (auto const& [id, value] : values_) {
        bytes += id >= first && value.takes_device_bytes() ? value.size_bytes : 0;
    }
    return bytes;
}

ValueTable::Order* ValueTable::view_of(Value const& value) {
    if (value.holds > 0) {
        return nullptr;
    }
    if (value.orphan) {
        return &orphans_;
    }
    if (!value.takes_device_bytes()) {
        return value.is_read_ahead() ? &absent_ : nullptr;
    }
    if (value.way_back) {
        return &droppable_;
    }
    if (!value.unshared) {
        return nullptr;
    }
    if (value.copy) {
        return &droppable_;
    }
    switch (value.choice.advice) {
        case Advice::never:
            return nullptr;
        case Advice::last_resort:
            return &last_resort_;
        case Advice::when_asked:
        case Advice::at_once:
            return value.waits_for_its_recipe() ? &waiting_ : &storable_;
    }
    return nullptr;
}

void ValueTable::take_out(ValueId id, Value const& value) {
    Order* const view = view_of(value);
    if (view != nullptr) {
        view->erase({value.distance, id});
    }
    if (view == &droppable_) {
        droppable_bytes_ -= value.size_bytes;
    }
    if (value.is_ready()) {
        ready_.erase({value.distance, id});
        ready_first_bytes_ -= value.recompute_first ? value.size_bytes : 0;
    }
    if (value.is_due_by_plan()) {
        due_by_plan_.erase(id);
    }
    if (value.by_recipe) {
        by_recipe_.erase(id);
        gone_by_recipe_bytes_ -= value.takes_device_bytes() ? 0 : value.size_bytes;
    }
    if (value.takes_device_bytes()) {
        held_bytes_ -= value.size_bytes;
    }
    about_to_leave_ -= value.is_about_to_leave() ? 1 : 0;
}

void ValueTable::file(ValueId id, Value const& value) {
    Order* const view = view_of(value);
    if (view != nullptr) {
        view->insert({value.distance, id});
    }
    if (view == &droppable_) {
        droppable_bytes_ += value.size_bytes;
    }
    if (value.is_ready()) {
        ready_.insert({value.distance, id});
        ready_first_bytes_ += value.recompute_first ? value.size_bytes : 0;
    }
    if (value.is_due_by_plan()) {
        due_by_plan_.insert(id);
    }
    if (value.by_recipe) {
        by_recipe_.insert(id);
        gone_by_recipe_bytes_ += value.takes_device_bytes() ? 0 : value.size_bytes;
        gone_by_recipe_peak_bytes_ = std::max(gone_by_recipe_peak_bytes_, gone_by_recipe_bytes_);
    }
    if (value.takes_device_bytes()) {
        held_bytes_ += value.size_bytes;
    }
    about_to_leave_ += value.is_about_to_leave() ? 1 : 0;
}

void ValueTable::set_distance(ValueId id, Value& value, std::int64_t distance) {
    for (Order* const each : {view_of(value), value.is_ready() ? &ready_ : nullptr}) {
        if (each != nullptr) {
            each->erase({value.distance, id});
            each->insert({distance, id});
        }
    }
    value.distance = distance;
}

void ValueTable::look_again_at(ValueId id) {
    Value* const value = find(id);
    if (value != nullptr && !value->is_unsure && value->could_go_when_asked()) {
        value->is_unsure = true;
        if (unsure_.size() > 2 * values_.size()) {  // nobody asks, and most have ended
            std::erase_if(unsure_, [this](ValueId each) { return find(each) == nullptr; });
        }
        unsure_.push_back(id);
    }
}

void ValueTable::look_again_at_users(Value const& value) {
    for (ValueId const id : value.users) {
        look_again_at(id);
    }
}

ValueId ValueTable::largest_held() const {
    ValueId largest;
    std::int64_t most_bytes = 0;
    for (auto const& [id, value] : values_) {
        bool const is_larger =
            value.size_bytes > most_bytes || (value.size_bytes == most_bytes && id < largest);
        if (value.on_device && is_larger) {
            largest = id;
            most_bytes = value.size_bytes;
        }
    }
    return largest;
}

}  // namespace spillway
