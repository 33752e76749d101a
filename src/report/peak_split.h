// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the device's bytes were at the moment of its peak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

/// Saved tensors of one module.
struct ModuleBytes {
    std::string module;  ///< its path; a number in it that is `*` stands for all; empty: not known
    std::int64_t size_bytes = 0;

    bool operator==(ModuleBytes const&) const = default;
};

/// Units   bytes; all fields together are the peak
struct PeakSplit {
    std::int64_t parameter_bytes = 0;
    std::int64_t buffer_bytes = 0;
    std::int64_t gradient_bytes = 0;
    std::int64_t optimizer_state_bytes = 0;
    std::vector<ModuleBytes> saved = {};  ///< tensors that may leave; largest first
    std::int64_t read_ahead_bytes = 0;    ///< on their way back to the device, and staging there
    std::int64_t other_bytes = 0;  ///< temporaries, outputs, small saved tensors: all the rest

    [[nodiscard]] std::int64_t saved_bytes() const;

    bool operator==(PeakSplit const&) const = default;
};

inline constexpr std::size_t kMostModules = 12;
inline constexpr char const* kOtherModules = "(others)";

/// Sums by module, largest first: at most kMostModules, and what is left under kOtherModules. Where
/// there are more, numbers in their paths become `*` first: "layers.0.fc", "layers.1.fc" ->
/// "layers.*.fc".
[[nodiscard]] std::vector<ModuleBytes> largest_modules(std::vector<ModuleBytes> const& all);

/// Makes the parts sum to the peak: `other_bytes` is what they lack; what they are too large by is
/// taken from the last ones.
void fit_to_peak(PeakSplit& split, std::int64_t peak_bytes);

}  // namespace spillway
