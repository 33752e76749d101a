// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/command.h"

#include <array>

namespace spillway {

std::string_view name_of(CommandKind kind) {
    constexpr std::array<std::string_view, 10> kNames{
        "reserve", "release", "store", "load", "run", "bind", "drop", "wait", "raise", "note"};
    return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(SideWork work) {
    constexpr std::array<std::string_view, 4> kNames{"none", "encode", "decode", "recompute"};
    return kNames[static_cast<std::size_t>(work)];
}

}  // namespace spillway
