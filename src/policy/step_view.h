// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A traced step as policies look at it: when each value is saved, becomes free to leave and is
// needed again, and at which slots units and layers begin.
#pragma once

#include "base/ids.h"
#include "trace/trace.h"
#include "trace/units.h"

#include <cstddef>
#include <cstdint>
#include <map>
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
    StepView(Trace const& trace, Units units);

    Trace const& trace;
    Units units;
    std::vector<ValueView> values;
    std::vector<std::int64_t> begin_ns;  ///< of each point, and where the last one ends
    /// By unit: the first and last value that its forward saves, and the first that its backward
    /// needs.
    std::vector<std::optional<ValueId>> first_saved;
    std::vector<std::optional<ValueId>> last_saved;
    std::vector<std::optional<ValueId>> first_needed;

    /// Of points that are not forward's no time counts.
    std::vector<std::int64_t> forward_begin_ns;

    [[nodiscard]] std::int64_t saved_ns(ValueId id) const;
    /// When it becomes free to leave; of values that can.
    [[nodiscard]] std::int64_t free_ns(ValueId id) const;
    /// The first save from `at_ns` on that is no earlier than `value`'s own. None: it is the last.
    [[nodiscard]] std::optional<ValueId> save_from(std::int64_t at_ns, ValueId value) const;

    /// As `Fate::leaves` of `value`: the slot of `at`, if a plan may say so, since a value cannot
    /// leave before it is saved. `Fate::returns`: if it is not needed before.
    [[nodiscard]] std::optional<Slot> leaving_slot(ValueId value, std::optional<ValueId> at) const;
    [[nodiscard]] std::optional<Slot> returning_slot(ValueId value, std::optional<ValueId> at)
        const;

    [[nodiscard]] Slot const& slot_of(ValueId id) const { return trace.values[id.index()].slot; }
    /// Bytes of the unit's values that can move.
    [[nodiscard]] std::int64_t movable_bytes(std::size_t unit) const;

  private:
    /// Where a step saves a slot more than once, its last value counts, as in `validate`.
    struct SlotTimes {
        std::size_t saved = 0;
        std::optional<std::size_t> needed{};
    };
    std::map<Slot, SlotTimes> slots_;
};

/// A layer as systems for convolutional networks and TBA's modules mean it: what an innermost
/// module saves in one go. A value that no module is known of is one by itself. Its forward is from
/// its first save to the next layer's.
struct LayerView {
    std::vector<ValueId> values;
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    std::int64_t forward_ns = 0;            ///< of it, what is forward's
    std::optional<ValueId> first_needed{};  ///< by backward
};

/// In the order of the forward.
[[nodiscard]] std::vector<LayerView> layers_of(StepView const& step);

}  // namespace spillway
