// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The late accelerator for Python: torch.ops.load_library installs it.

#include "late/late.h"

#include <torch/library.h>

#include <cstdint>
#include <string>
#include <vector>

namespace late {
namespace {

/// What the checker saw since the last reset, and blocks whose bytes nobody may have written.
std::vector<std::string> faults() {
    std::vector<std::string> found;
    for (Report const& report : reports()) {
        found.push_back(report.text());
    }
    for (Damage const& damage : damage()) {
        found.push_back(
            "a block of " + std::to_string(damage.size_bytes) + " bytes is damaged at " +
            std::to_string(damage.offset_bytes)
        );
    }
    return found;
}

TORCH_LIBRARY(late, library) {
    install();
    library.def("reset(int seed) -> ()", [](std::int64_t seed) {
        reset(static_cast<std::uint64_t>(seed));
    });
    library.def("manual_seed(int seed) -> ()", [](std::int64_t seed) {
        manual_seed(static_cast<std::uint64_t>(seed));
    });
    library.def("faults() -> str[]", &faults);
}

}  // namespace
}  // namespace late
