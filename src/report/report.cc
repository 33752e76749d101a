// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/report.h"

#include <cmath>

namespace spillway {

std::string_view name_of(StallCause cause) {
    constexpr std::array<std::string_view, kStallCauses> kNames{
        "copy_out", "copy_in", "nvme", "admission"};
    return kNames[static_cast<std::size_t>(cause)];
}

double CodecReport::relative_l2_error() const {
    return value_squares > 0 ? std::sqrt(error_squares / value_squares) : 0;
}

}  // namespace spillway
