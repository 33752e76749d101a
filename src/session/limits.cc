// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "spillway/limits.h"

#include "memory/host_memory.h"

#include <filesystem>
#include <system_error>

namespace spillway {

std::int64_t memory_limit_bytes() {
    return read_host_limits().most_bytes();
}

std::int64_t free_bytes_of(std::string const& folder) {
    constexpr std::int64_t kUnknown = std::int64_t{1} << 50;
    std::error_code failure;
    std::filesystem::space_info const space = std::filesystem::space(folder, failure);
    return failure ? kUnknown : static_cast<std::int64_t>(space.available);
}

}  // namespace spillway
