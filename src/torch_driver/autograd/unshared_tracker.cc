// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/unshared_tracker.h"

#include <algorithm>
#include <utility>

namespace spillway {

UnsharedTracker::UnsharedTracker(
    SavedValues& values, std::function<bool(SavedValue const&)> is_unshared
)
    : values_(values), is_unshared_(std::move(is_unshared)) {}

void UnsharedTracker::add(ValueId value) {
    add_candidate(not_unshared_, value);
    add_candidate(unseen_, value);
}

void UnsharedTracker::add_candidate(std::vector<ValueId>& candidates, ValueId value) {
    candidates.push_back(value);
    if (candidates.size() > 2 * values_.size() + 64) {  // nobody asked for long
        std::erase_if(candidates, [this](ValueId each) { return values_.find(each) == nullptr; });
    }
}

void UnsharedTracker::is_in_use(ValueId value, SavedValue& entry) {
    if (std::exchange(entry.could_leave, false)) {
        could_leave_bytes_ -= entry.size_bytes;
        unseen_.push_back(value);
    }
}

void UnsharedTracker::can_leave(SavedValue& entry) {
    if (!std::exchange(entry.could_leave, true)) {
        could_leave_bytes_ += entry.size_bytes;
    }
}

void UnsharedTracker::handed_out(ValueId value) {
    if (std::find(not_unshared_.begin(), not_unshared_.end(), value) == not_unshared_.end()) {
        not_unshared_.push_back(value);
    }
}

void UnsharedTracker::see_all() {
    std::erase_if(unseen_, [this](ValueId value) {
        SavedValue* const entry = values_.find(value);
        if (entry == nullptr || entry->storage == nullptr || entry->could_leave) {
            return true;
        }
        if (is_unshared_(*entry)) {
            can_leave(*entry);
        }
        return entry->could_leave;
    });
}

std::vector<ValueId> UnsharedTracker::newly_unshared(std::size_t at_most) {
    std::vector<ValueId> unshared;
    std::size_t const looks = std::min(at_most, not_unshared_.size());
    if (looks == not_unshared_.size()) {
        next_candidate_ = 0;  // all of them, in the order in which they were saved
    }
    for (std::size_t look = 0; look < looks && !not_unshared_.empty(); ++look) {
        if (next_candidate_ >= not_unshared_.size()) {
            next_candidate_ = 0;
        }
        auto const at = not_unshared_.begin() + static_cast<std::ptrdiff_t>(next_candidate_);
        SavedValue* const entry = values_.find(*at);
        if (entry == nullptr) {
            not_unshared_.erase(at);
        } else if (entry->storage != nullptr && is_unshared_(*entry)) {
            unshared.push_back(*at);
            can_leave(*entry);
            not_unshared_.erase(at);
        } else {
            ++next_candidate_;
        }
    }
    return unshared;
}

}  // namespace spillway
