// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/gradient_error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace spillway::train {

namespace {

constexpr std::size_t kShown = 8;

struct Squares {
    double of_difference = 0;
    double of_exact = 0;

    [[nodiscard]] double error() const {
        return of_difference == 0 ? 0 : std::sqrt(of_difference / of_exact);
    }
};

Squares squares_of(Gradient const& measured, Gradient const& exact) {
    Squares squares;
    for (std::size_t i = 0; i < exact.values.size(); ++i) {
        double const right = exact.values[i];
        double const off = double{measured.values[i]} - right;
        squares.of_difference += off * off;
        squares.of_exact += right * right;
    }
    return squares;
}

std::string line_of(double error, std::string const& of) {
    std::array<char, 32> number{};
    std::snprintf(number.data(), number.size(), "%12.3g  ", error);
    return number.data() + of + '\n';
}

}  // namespace

GradientErrors gradient_errors(
    std::vector<Gradient> const& measured, std::vector<Gradient> const& exact
) {
    GradientErrors errors;
    Squares all;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        Squares const squares = squares_of(measured[i], exact[i]);
        errors.parameters.push_back({exact[i].name, squares.error()});
        all.of_difference += squares.of_difference;
        all.of_exact += squares.of_exact;
    }
    errors.all = all.error();
    return errors;
}

std::string to_text(GradientErrors const& errors) {
    std::vector<GradientErrors::OfParameter> worst = errors.parameters;
    std::stable_sort(worst.begin(), worst.end(), [](auto const& one, auto const& other) {
        return one.error > other.error;
    });
    worst.resize(std::min(worst.size(), kShown));
    std::string text = "relative error of the gradients against a lossless run of the same step\n" +
                       line_of(errors.all, "of all");
    for (auto const& parameter : worst) {
        text += line_of(parameter.error, parameter.name);
    }
    if (errors.decoded_bytes == 0) {
        text += "  nothing that was encoded came back in this step: these say nothing of a codec\n";
    }
    return text;
}

}  // namespace spillway::train
