// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// `spillway trace`: shows a recorded step, or makes the trace of one that nobody ran.
#pragma once

#include "spillway/model_trace.h"

#include <CLI/CLI.hpp>

#include <string>

namespace spillway::cli {

struct TraceFlags {
    std::string file;
    ModelTrace model;
    bool unfused_attention = false;
};

/// The subcommand, whose flags fill `flags`.
CLI::App& add_trace_command(CLI::App& app, TraceFlags& flags);

/// Prints the table of the trace in a file, or the trace of a model; returns the exit code.
[[nodiscard]] int run_trace(TraceFlags const& flags);

}  // namespace spillway::cli
