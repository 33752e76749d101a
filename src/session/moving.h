// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A store, load, encode or decode that the mover has.
#pragma once

#include "executor/command.h"

#include <cstdint>
#include <string>

namespace spillway {

struct Moving {
    CommandKind kind = CommandKind::store;
    SideWork work = SideWork::none;
    Pool pool = Pool::host;
    ValueId value{};
    std::int64_t size_bytes = 0;
    std::string text{};  ///< of the value; empty where there is no timeline

    [[nodiscard]] bool is_leaving() const {
        return kind == CommandKind::store || work == SideWork::encode;
    }
};

}  // namespace spillway
