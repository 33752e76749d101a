// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A trace: what one training step does, point by point, and every value that it saves. Text form:
// docs/formats/trace.md.
#pragma once

#include "base/ids.h"
#include "base/phase.h"
#include "base/result.h"
#include "trace/recipe.h"
#include "trace/slot.h"
#include "trace/tensor_class.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

enum class ValueKind : std::uint8_t { activation, parameter, gradient, optimizer, kv };

[[nodiscard]] std::string_view name_of(ValueKind kind);

/// What one storage holds at one version. Its id is its place in `Trace::values`.
struct TraceValue {
    Slot slot{};
    std::int64_t size_bytes = 0;  ///< as the device's allocator rounds
    std::string dtype{};          ///< as torch prints it ("float32"); may be empty
    ValueKind kind = ValueKind::activation;
    std::optional<RecipeShape> recipe{};  ///< none: it cannot be made again
    std::string module{};         ///< that saves it, "layers.0"; empty: the model, or unknown
    std::string why_no_recipe{};  ///< in words; may be empty, and is where there is a recipe
    TensorClass tensor_class = TensorClass::other;  ///< to all operators that save it
    std::vector<TensorClass> classes{};  ///< to each of them, once, where they differ: a map that a
                                         ///< ReLU gives to a convolution has two, and is `other`

    bool operator==(TraceValue const&) const = default;
};

/// One part of the program: what it needs comes first, then `floor_bytes` and what it saves are
/// allocated, then it computes, and then values become unshared or are dropped.
struct TracePoint {
    Phase phase = Phase::forward;
    std::int64_t duration_ns = 0;
    std::int64_t floor_bytes = 0;  ///< highest during the point of the live device bytes that are
                                   ///< no value's: temporaries, workspaces, parameters
    std::vector<ValueId> needed{};
    std::vector<ValueId> saved{};
    std::vector<ValueId>
        unshared{};                  ///< from here on only the saved graph holds them, until needed
    std::vector<ValueId> dropped{};  ///< no saved tensor refers to them any more

    bool operator==(TracePoint const&) const = default;
};

struct Trace {
    std::string name;
    std::vector<TraceValue> values;  ///< in the order in which they are saved
    std::vector<TracePoint> points;

    bool operator==(Trace const&) const = default;
};

/// Is it a step that a program could do?
///
/// Fails   Errc::bad_argument naming the point and value: sizes, durations or floors below 0; a
///         recipe of itself or of no value; a value saved twice, never or out of order; used before
///         it is saved or after its drop
[[nodiscard]] Result<void> validate(Trace const& trace);

[[nodiscard]] std::string to_json_text(Trace const& trace);
/// Fails   Errc::bad_format naming the field; what `validate` refuses is refused here too
[[nodiscard]] Result<Trace> parse_trace(std::string_view text);

/// All points' time: the step when nothing waits.
[[nodiscard]] std::int64_t compute_ns_of(Trace const& trace);

/// Highest of floor plus live values over all points: the peak when nothing leaves the device.
[[nodiscard]] std::int64_t peak_without_moves(Trace const& trace);

}  // namespace spillway
