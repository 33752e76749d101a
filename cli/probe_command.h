// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// `spillway probe`: the machine that this is, measured, as a file for the commands that plan.
#pragma once

#include "spillway/option.h"

#include <CLI/CLI.hpp>

#include <map>
#include <string>
#include <string_view>

namespace spillway::cli {

struct ProbeFlags {
    std::map<std::string_view, std::string> typed;  ///< by the options' names
    SessionOptions options;
};

/// The subcommand, whose flags fill `flags`: those of a session that name places.
CLI::App& add_probe_command(CLI::App& app, ProbeFlags& flags);

/// Prints the machine; returns the exit code.
[[nodiscard]] int run_probe(ProbeFlags flags);

}  // namespace spillway::cli
