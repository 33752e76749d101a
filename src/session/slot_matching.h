// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Slots of a loop's saves: of the step that its plan is made of those are kept, and from then on
// each save gets the slot that it has there.
#pragma once

#include "base/phase.h"
#include "plan/plan.h"
#include "session/slot_cursor.h"
#include "trace/slot.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

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

    /// How many of a plan's slots a step has saved.
    struct Followed {
        std::size_t saved = 0;
        std::size_t all = 0;
    };
    /// The plan came without its step: it is counted in the next one that saves something.
    void begin_count(Plan const& plan);
    /// A step has ended. None: nothing was counted in it.
    [[nodiscard]] std::optional<Followed> end_count();

  private:
    std::optional<SaveSequence> sequence_;  ///< while it grows
    std::optional<SlotCursor> cursor_;
    std::int32_t first_unmatched_ = 0;  ///< above all numbers of the plan's step
    std::int32_t unmatched_ = 0;        ///< the next number of a save without a slot
    std::set<Slot> not_saved_yet_;      ///< of the plan that is counted
    std::size_t counted_ = 0;           ///< all slots of it; 0 where none is counted
    bool saved_any_ = false;
};

}  // namespace spillway
