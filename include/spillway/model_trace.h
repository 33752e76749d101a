// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Traces of steps that nobody ran: of well-known models, from their dimensions and a machine's
// rates (docs/how_to/model_traces.md).
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

struct ModelTrace {
    std::string model{};          ///< "gpt2-345m": one of `model_names`
    std::string machine{};        ///< a file, or else the name of a data sheet: "h100"
    std::int64_t batch = 0;       ///< sequences or pictures; 0: the model's default
    std::int64_t sequence = 0;    ///< tokens; 0: the model's default. Models of pictures have none
    std::string dtype{};          ///< "float32" (empty, too), "bfloat16", "float16"
    std::string optimizer{};      ///< "adamw", "momentum", "sgd" (no state); empty: the model's
    bool fused_attention = true;  ///< no scores in memory
    double dropout = -1;          ///< share that is dropped; below 0: the model's own
    std::int64_t layers = 0;      ///< of a transformer (T5: of each stack); 0: the model's own
};

[[nodiscard]] std::vector<std::string> model_names();

/// The trace of one training step (docs/formats/trace.md), as JSON.
///
/// Fails   Errc::io, Errc::bad_format, Errc::bad_argument, Errc::unsupported, with one line: what
/// is
///         not known or out of range, and what there is; a machine that does not say how fast its
///         device computes
[[nodiscard]] Result<std::string> model_trace(ModelTrace const& what);

}  // namespace spillway
