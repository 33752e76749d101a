// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the recorder has to know of an operator: what it writes, whether it draws random numbers,
// and whether it may be run again to make its results anew.
#pragma once

#include "base/result.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace at {
struct RecordFunction;
}

namespace spillway {

/// Whether an operator may be run again, bit for bit as before.
enum class Replay : std::uint8_t {
    unknown,     ///< it is not on our list
    pure,        ///< its results are a function of its arguments
    costly,      ///< as pure, and dear: where whole blocks are made again
    draws,       ///< and of the generator that it takes as an argument
    batch_norm,  ///< pure, but for statistics that it writes and no schema tells
    allocates,   ///< its result has only a shape: what it holds comes later, maybe unseen
};

/// Of batch norm's arguments.
inline constexpr int kRunningMean = 3;
inline constexpr int kRunningVar = 4;
inline constexpr int kIsTraining = 5;

struct OperatorFacts {
    explicit OperatorFacts(c10::OperatorHandle of)
        : handle(std::move(of)), name(handle.schema().name()) {}

    /// The operator now; none: it is another library's, and was redefined or removed since.
    [[nodiscard]] std::optional<c10::OperatorHandle> to_run() const;

    c10::OperatorHandle handle;  ///< of another library: to compare alone, since that may end
    std::string name;            ///< "aten::mm"
    /// Of another library: as it was when it was allowed to run again.
    std::optional<c10::FunctionSchema> allowed;
    Replay replay = Replay::unknown;
    /// What is written is overwritten whole: what was there before does not matter.
    bool overwrites = false;
    bool fills = false;  ///< with one number: what it writes whole is a buffer as new
    bool draws_without_generator = false;  ///< and so from PyTorch's own
    std::vector<int> written;              ///< arguments whose bytes it writes
    std::optional<int> generator;          ///< argument that is a generator
    std::optional<int> dropout;            ///< argument that is a share; above 0 it draws

    [[nodiscard]] bool writes(int argument) const {
        return std::find(written.begin(), written.end(), argument) != written.end();
    }
};

/// Of the operator that `function` runs; null: it is none of PyTorch's own, nor allowed to run
/// again.
///
/// Thread  any. It lives until the process ends
[[nodiscard]] OperatorFacts const* facts_of(at::RecordFunction const& function);

/// From now on `name`, an operator of another library ("mylib::rms_norm", with all overloads that
/// write nothing), is one whose results are a function of its arguments, as `Replay::costly`.
///
/// Thread  any
/// Fails   Errc::bad_argument: there is none, it is one of PyTorch's, each overload writes, or one
///         says by its tag that it draws random numbers. Nothing is allowed then
[[nodiscard]] Result<void> allow_recompute_of(std::string const& name);

}  // namespace spillway
