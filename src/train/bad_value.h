// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a user typed and cannot be used: ends the run with exit code 2 and one line.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace spillway::train {

/// Thrown while nothing was changed yet. The text is the line to print, without a prefix.
struct BadValue : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// "--layers 0: why"; a value with nothing in it is shown as ''.
[[noreturn]] inline void refuse(
    std::string_view flag, std::string_view value, std::string_view why
) {
    std::string line{flag};
    line += " ";
    line += value.empty() ? std::string_view{"''"} : value;
    line += ": ";
    line += why;
    throw BadValue(line);
}

}  // namespace spillway::train
