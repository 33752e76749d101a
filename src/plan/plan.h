// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A plan: the fate of every value of a training step. It is advice: an empty plan is safe, and a
// value that it does not know is left to the `online` chooser. Text form: docs/formats/plan.md.
#pragma once

#include "base/place.h"
#include "base/result.h"
#include "trace/slot.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace spillway {

struct Machine;
struct Trace;

/// What becomes of one value between its last use in forward and its first use in backward.
enum class FateKind : std::uint8_t {
    keep,  ///< stays on the device
    move,  ///< leaves for `pool` as soon as only the saved graph holds it; comes back before need
    recompute,  ///< goes without a copy when it can, and its recipe makes it again when it is
                ///< needed
};

/// "keep", "move", "recompute".
[[nodiscard]] std::string_view name_of(FateKind kind);

struct Fate {
    FateKind kind = FateKind::keep;
    Pool pool = Pool::nvme;  ///< where a moved value waits; host or nvme
    /// Its device bytes go once the value of this slot was saved, however much room there is: the
    /// program waits for the store if it has not ended. None: what moves goes when room is needed,
    /// what is made again as soon as its recipe's sources are the saved graph's alone.
    std::optional<Slot> leaves{};
    /// Its return begins when backward needs the value of this slot. None: as early as there is
    /// room.
    std::optional<Slot> returns{};
    /// A moved value leaves by it, as `parse_codec` reads it. Empty: it leaves as it is.
    std::string codec{};
    bool operator==(Fate const&) const = default;
};

struct Plan {
    std::int32_t version = 3;
    std::string policy{};  ///< that made it, with its parameters: "te:layers=8"; may be empty
    std::int64_t device_bytes = 0;  ///< the device budget that it was made for; 0: any
    std::map<Slot, Fate> fates;
    std::int64_t predicted_step_ns = 0;  ///< 0: no prediction
    std::int64_t predicted_peak_bytes = 0;
    std::int64_t bound_step_ns = 0;  ///< proven lower bound; 0: none

    bool operator==(Plan const&) const = default;
};

/// Whether some value is made again, which takes recipes from the first step on.
[[nodiscard]] bool makes_again(Plan const& plan);

/// Whether a session that runs it needs recipes: some value is made again, or the plan is empty and
/// leaves all to `online`. In any other session that plans, no operator is recorded.
[[nodiscard]] bool uses_recipes(Plan const& plan);

/// Does the plan fit the step and the machine? Whether its bytes fit is the simulator's question.
///
/// Fails   Errc::bad_argument naming the slot or field: a slot that the trace lacks; a pool that
///         the machine has not, or that is the device; a value that is made again and has no
///         recipe, or has a time to return; a codec that does not exist, of a value that does not
///         move or is none of its class and type, or that makes it no smaller; a value that leaves
///         before it is saved, or returns at a need that comes after its own or at none; a
///         prediction below 0 or below its bound
[[nodiscard]] Result<void> validate(Plan const& plan, Trace const& trace, Machine const& machine);

[[nodiscard]] std::string to_json_text(Plan const& plan);
/// Fails   Errc::bad_format naming the field; also a slot with two fates
[[nodiscard]] Result<Plan> parse_plan(std::string_view text);

}  // namespace spillway
