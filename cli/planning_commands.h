// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// `spillway plan`, `simulate`, `compare` and `fit`: a recorded step and a machine, as files, and
// what policies would make of them.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace spillway::cli {

struct PlanningFlags {
    std::string trace;
    std::string machine;
    std::string plan;
    std::string policy;
    std::vector<std::string> policies;
    std::string device_budget;
    std::string host_budget;
    std::string nvme_budget;
    std::vector<std::string> budgets;
    std::string timeline;
    std::string json;
    bool real = false;
};

/// The four subcommands, whose flags fill `flags`.
void add_planning_commands(CLI::App& app, PlanningFlags& flags);

/// Runs the one of them that was parsed; returns its exit code. -1: none was.
[[nodiscard]] int run_planning(CLI::App const& app, PlanningFlags const& flags);

}  // namespace spillway::cli
