// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Traces of steps that nobody ran: of well-known models, from their dimensions and a machine's
// rates.
#pragma once

#include "base/result.h"
#include "machine/machine.h"
#include "trace/trace.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

/// Of what a machine says, what operators of this size reach. Assumptions: measured figures of
/// large products lie between 0.44 (H100) and 0.7 (A100) of the data sheet's.
inline constexpr double kProductEfficiency = 0.6;
inline constexpr double kMemoryEfficiency = 0.8;

struct WorkloadRequest {
    std::string model;
    std::int64_t batch = 0;     ///< sequences or pictures; 0: the model's default
    std::int64_t sequence = 0;  ///< tokens; 0: the model's default. Models of pictures have none
    std::string dtype = "float32";  ///< of parameters and activations: or "bfloat16", "float16"
    std::string optimizer{};        ///< "adamw", "momentum", "sgd" (no state); empty: the model's
    bool fused_attention = true;
    double dropout = -1;      ///< below 0: the model's own
    std::int64_t layers = 0;  ///< of a transformer (T5: of each stack) or a ResNet, whose
                              ///< third stage has what the others do not; 0: the model's own
};

/// In the order of the catalogue: "gpt2-345m" and so on.
[[nodiscard]] std::vector<std::string> workload_names();

/// Elements of all parameters of a model of the catalogue; 0: there is no such model.
[[nodiscard]] std::int64_t workload_parameters(std::string_view model);

/// Note [What step.h says] holds. Optimizer state, in bytes a parameter: "adamw" 8, "momentum" 4;
/// in half precision 4 more, for a copy in float32.
///
/// Fails   Errc::bad_argument in one line: an unknown model, dtype or optimizer, with those that
///         there are; a batch or sequence that is out of range; Errc::unsupported: the machine does
///         not say how fast its device is
[[nodiscard]] Result<Trace> make_workload(WorkloadRequest const& request, Machine const& machine);

}  // namespace spillway
