// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A traced step as policies look at it: when each value is saved, becomes free to leave and is
// needed again, and at which slots a unit begins.
#pragma once

#include "base/ids.h"
#include "trace/trace.h"
#include "trace/units.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace spillway {

/// Points are places in `Trace::points`.
struct ValueView {
    std::size_t saved = 0;
    std::optional<std::size_t> unshared{};  ///< first; none: something else holds it to the end
    std::optional<std::size_t> needed{};    ///< first; none: never

    /// Whether moving it could free anything.
    [[nodiscard]] bool can_move() const { return unshared && needed && *unshared < *needed; }
};

struct StepView {
    explicit StepView(Trace const& trace);

    Trace const& trace;
    Units units;
    std::vector<ValueView> values;
    std::vector<std::int64_t> begin_ns;  ///< of each point, and where the last one ends
    /// By unit: the first and last value that its forward saves, and the first that its backward
    /// needs.
    std::vector<std::optional<ValueId>> first_saved;
    std::vector<std::optional<ValueId>> last_saved;
    std::vector<std::optional<ValueId>> first_needed;

    [[nodiscard]] Slot const& slot_of(ValueId id) const { return trace.values[id.index()].slot; }
    /// Bytes of the unit's values that can move.
    [[nodiscard]] std::int64_t movable_bytes(std::size_t unit) const;
};

}  // namespace spillway
