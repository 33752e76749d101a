// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Slots of a loop's saves: of the step that its plan is made of those are kept, and from then on
// each save gets the slot that it has there.
#pragma once

#include "base/phase.h"
#include "session/slot_cursor.h"
#include "trace/slot.h"

#include <cstdint>
#include <optional>

namespace spillway {

/// Before there is a plan, and under one that came without its step (Loop::plan, a file), slots
/// stay as the driver counts them.
///
/// Thread  not thread-safe: the loop's mutex guards it
class SlotMatching {
  public:
    /// The step that begins is to have a plan: its saves are kept.
    void begin_sequence();
    /// It has ended, and a plan was made of it or not.
    void end_sequence(bool has_plan);

    void begin_step();
    void begin_pass();
    void begin_phase(Phase phase);

    /// A save that the driver counted as `slot`. Under a plan it becomes the one that the save has
    /// there. What has none gets a number that the plan's step has not: no plan knows it.
    void match(Slot& slot, SaveMark const& mark);

  private:
    std::optional<SaveSequence> sequence_;  ///< while it grows
    std::optional<SlotCursor> cursor_;
    std::int32_t first_unmatched_ = 0;  ///< above all numbers of the plan's step
    std::int32_t unmatched_ = 0;        ///< the next number of a save without a slot
};

}  // namespace spillway
