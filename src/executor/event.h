// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What is reported to the executor. Program events come from the thread that trains, in program
// order, and get a reply; queued events come from any thread and only open gates. Text form:
// docs/formats/events.md.
#pragma once

#include "base/ids.h"
#include "base/phase.h"
#include "base/place.h"
#include "executor/advice.h"
#include "plan/plan.h"
#include "trace/recipe.h"
#include "trace/slot.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace spillway {

/// The device pool as its allocator counts it, reported with program events.
struct Usage {
    std::int64_t used_bytes = 0;  ///< allocated now
    std::int64_t peak_bytes = 0;  ///< highest since the last program event
    bool operator==(Usage const&) const = default;
};

// Program events.

/// A training step begins or ends.
struct Begin {
    std::int64_t step = 0;
    bool operator==(Begin const&) const = default;
};
struct End {
    std::int64_t step = 0;
    bool operator==(End const&) const = default;
};
/// A phase of the step begins.
struct PhaseBegan {
    Phase phase = Phase::setup;
    Usage usage;
    bool operator==(PhaseBegan const&) const = default;
};
/// A point of the program: which values only the saved graph still holds, so that dropping them
/// gives their bytes back.
struct Point {
    std::vector<ValueId> unshared;
    Usage usage;
    bool operator==(Point const&) const = default;
};
/// Autograd saved a value for the first time. `value` is new and larger than every id before it.
struct Saved {
    ValueId value;
    std::int64_t size_bytes = 0;  ///< as the device's allocator rounds
    Slot slot;
    Usage usage;
    std::int64_t encoded_bytes = 0;      ///< what it takes outside the device, encoded; 0: goes raw
    Advice advice = Advice::when_asked;  ///< of the rule that the driver asked; a plan overrides it
    bool operator==(Saved const&) const = default;
};
/// The driver can make a value that was saved again.
struct Made {
    ValueId value;
    RecipeShape recipe;
    bool before_moves = true;  ///< of the rule that was asked: it costs less than moving the value
    bool operator==(Made const&) const = default;
};
/// Backward wants a value now.
struct Need {
    ValueId value;
    Usage usage;
    bool operator==(Need const&) const = default;
};
/// The program may write the value, which it has: a copy that is away is none any more.
struct AboutToWrite {
    ValueId value;
    bool operator==(AboutToWrite const&) const = default;
};
/// The engine will need these values in this order; it overrides "last saved, first needed".
struct BackwardOrder {
    std::vector<ValueId> values;
    bool operator==(BackwardOrder const&) const = default;
};
/// An allocation of `size_bytes` does not fit under the device limit.
struct Short {
    std::int64_t size_bytes = 0;
    Usage usage;
    bool operator==(Short const&) const = default;
};
/// Between steps: a new plan for the chooser `planned`.
struct PlanGiven {
    Plan plan;
    bool operator==(PlanGiven const&) const = default;
};

// Queued events.

/// A command has ended well; its fence is passed.
struct Finished {
    CommandId command;
    bool operator==(Finished const&) const = default;
};
/// A command has failed, or could not start because one that it waited for failed.
struct Failed {
    CommandId command;
    bool place_is_full = false;  ///< the tier had no room, rather than a fault
    std::string why;             ///< empty: given up without a fault
    bool operator==(Failed const&) const = default;
};
/// No saved tensor refers to the value any more.
struct Dropped {
    ValueId value;
    bool operator==(Dropped const&) const = default;
};

using Event = std::variant<
    Begin,
    End,
    PhaseBegan,
    Point,
    Saved,
    Made,
    Need,
    AboutToWrite,
    BackwardOrder,
    Short,
    PlanGiven,
    Finished,
    Failed,
    Dropped>;

}  // namespace spillway
