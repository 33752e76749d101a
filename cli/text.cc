// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "text.h"

#include <charconv>
#include <cmath>
#include <sstream>

namespace spillway::cli {

namespace {

template <typename Number>
bool read_whole(std::string const& text, Number& number) {
    char const* const end = text.data() + text.size();
    auto const [stop, failure] = std::from_chars(text.data(), end, number);
    return failure == std::errc{} && stop == end;
}

}  // namespace

std::string shown(double number) {
    std::ostringstream text;
    text << number;
    return text.str();
}

std::string listed(std::vector<std::string> const& words) {
    std::string text;
    for (std::string const& word : words) {
        text += (text.empty() ? "" : ", ") + word;
    }
    return text;
}

std::string WholeNumber::operator()(std::string const& text) const {
    std::int64_t number = 0;
    if (read_whole(text, number) && number >= least && number <= most) {
        return "";
    }
    return "'" + text + "' is not a whole number from " + std::to_string(least) + " to " +
           std::to_string(most);
}

std::string Fraction::operator()(std::string const& text) const {
    double number = 0;
    bool const fits = read_whole(text, number) && std::isfinite(number) && number >= least &&
                      (below_most ? number < most : number <= most);
    if (fits) {
        return "";
    }
    return "'" + text + "' is not a number from " + shown(least) + " to " +
           (below_most ? "below " : "") + shown(most);
}

}  // namespace spillway::cli
