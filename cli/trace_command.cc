// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "trace_command.h"

#include "spillway/trace.h"

#include <cstdio>

namespace spillway::cli {

int run_trace(std::string const& path) {
    Result<std::string> const table = trace_table(path);
    if (!table.ok()) {
        std::fprintf(stderr, "spillway: trace: %s\n", table.error().message().c_str());
        return 2;
    }
    std::fputs(table->c_str(), stdout);
    return 0;
}

}  // namespace spillway::cli
