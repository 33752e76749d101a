// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/phase.h"

#include <array>

namespace spillway {

std::string_view name_of(Phase phase) {
    constexpr std::array<std::string_view, kPhases> kNames{
        "setup", "forward", "backward", "update"};
    return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace spillway
