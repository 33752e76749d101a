// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/trace_table.h"
#include "spillway/trace.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

namespace spillway {

Result<std::string> trace_table(std::string const& path) {
    std::ifstream file(path);
    std::string const text(
        (std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()
    );
    if (!file.is_open() || file.bad()) {
        return Error{Errc::io, std::generic_category().message(errno), path};
    }
    Result<Trace> const trace = parse_trace(text);
    if (!trace.ok()) {
        return Error{trace.error().code, trace.error().message(), path};
    }
    return to_table(*trace);
}

}  // namespace spillway
