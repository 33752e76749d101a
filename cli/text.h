// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Reading what was typed: whole numbers, fractions; each error names it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway::cli {

/// As C++ streams write it: "0.5", "1e-05".
[[nodiscard]] std::string shown(double number);

/// "a, b, c".
[[nodiscard]] std::string listed(std::vector<std::string> const& words);

/// Whole numbers in [least, most]. The checks return "" or why not, as CLI11's validators do.
struct WholeNumber {
    std::int64_t least = 0;
    std::int64_t most = 0;
    std::string operator()(std::string const& text) const;
};

/// Finite decimals in [least, most], or [least, most) with `below_most`.
struct Fraction {
    double least = 0;
    double most = 0;
    bool below_most = false;
    std::string operator()(std::string const& text) const;
};

}  // namespace spillway::cli
