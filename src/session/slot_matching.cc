// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/slot_matching.h"

#include <algorithm>
#include <utility>

namespace spillway {

void SlotMatching::begin_sequence() {
    sequence_.emplace();
}

void SlotMatching::end_sequence(bool has_plan) {
    std::optional<SaveSequence> sequence = std::exchange(sequence_, std::nullopt);
    if (has_plan && sequence) {
        for (auto const& [slot, mark] : sequence->saves) {
            first_unmatched_ = std::max(first_unmatched_, slot.occurrence + 1);
        }
        unmatched_ = first_unmatched_;
        cursor_.emplace(std::move(*sequence));
    }
}

void SlotMatching::begin_step() {
    unmatched_ = first_unmatched_;
    if (cursor_) {
        cursor_->begin_step();
    }
}

void SlotMatching::begin_pass() {
    if (sequence_) {
        sequence_->begin_pass();
    }
    if (cursor_) {
        cursor_->begin_pass();
    }
}

void SlotMatching::begin_phase(Phase phase) {
    if (sequence_) {
        sequence_->begin_phase(phase);
    }
    if (cursor_) {
        cursor_->begin_phase(phase);
    }
}

void SlotMatching::begin_count(Plan const& plan) {
    for (auto const& [slot, fate] : plan.fates) {
        not_saved_yet_.insert(slot);
    }
    counted_ = not_saved_yet_.size();
}

std::optional<SlotMatching::Followed> SlotMatching::end_count() {
    if (counted_ == 0 || !saved_any_) {
        return std::nullopt;
    }
    Followed const followed{counted_ - not_saved_yet_.size(), counted_};
    not_saved_yet_.clear();
    counted_ = 0;
    return followed;
}

void SlotMatching::match(Slot& slot, SaveMark const& mark) {
    if (counted_ > 0) {
        saved_any_ = true;
        not_saved_yet_.erase(slot);
    }
    if (sequence_) {
        sequence_->add(slot, mark);
    }
    if (cursor_) {
        Slot const* const matched = cursor_->match(slot, mark);
        slot.occurrence = matched != nullptr ? matched->occurrence : unmatched_++;
    }
}

}  // namespace spillway
