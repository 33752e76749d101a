// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/command.h"

#include <array>

namespace spillway {

std::string_view name_of(CommandKind kind) {
    constexpr std::array<std::string_view, 9> kNames{
        "reserve", "release", "store", "load", "bind", "drop", "wait", "raise", "note"};
    return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace spillway
