// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/trace_table.h"
#include "session/input_files.h"
#include "spillway/trace.h"

namespace spillway {

Result<std::string> trace_table(std::string const& path) {
    Result<Trace> const trace = read_trace(path);
    if (!trace.ok()) {
        return trace.error();
    }
    return to_table(*trace);
}

}  // namespace spillway
