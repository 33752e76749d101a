// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which arena an address belongs to, for deleters that are given nothing but a pointer.
#pragma once

#include "base/mutex.h"
#include "base/result.h"

#include <cstddef>
#include <cstdint>

namespace spillway {

class Arena;

/// Ranges start and end at multiples of this, so that both fit into one atomic word.
inline constexpr std::int64_t kArenaUnitBytes = std::int64_t{2} << 20;

/// Makes `arena_of` find `arena` for [first, first + size_bytes). Returns its entry.
///
/// Thread  any
/// Fails   Errc::unsupported: 65,536 arenas are there
[[nodiscard]] Result<std::int64_t> register_arena(
    Arena* arena, std::byte const* first, std::int64_t size_bytes
);

/// Held while an arena's range changes; taken before the arena's own lock, as a fork takes both.
extern Mutex arena_registry_mutex;

/// The arena's range is shorter from now on.
///
/// Order   before the rest is unmapped
void shorten_arena(std::int64_t entry, std::int64_t size_bytes) noexcept
    SPILLWAY_REQUIRES(arena_registry_mutex);

/// Order   before the range is unmapped
void forget_arena(std::int64_t entry) noexcept;

}  // namespace spillway
