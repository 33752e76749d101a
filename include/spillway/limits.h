// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What budgets that are typed as a share ("80%") are shares of.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

/// Bytes of memory that this process may use: the smallest limit of its cgroups (version 1 or 2),
/// else the machine's memory.
[[nodiscard]] std::int64_t memory_limit_bytes();

/// Free bytes of the file system that `folder` is on; a very large number if unknown: opening a
/// session then refuses the folder.
[[nodiscard]] std::int64_t free_bytes_of(std::string const& folder);

}  // namespace spillway
