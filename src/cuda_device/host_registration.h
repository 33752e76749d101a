// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Host memory that is mapped already is locked (pinned) for every GPU of this process, so that
// their copy engines read and write it while the host does something else.
#pragma once

#include "base/result.h"
#include "memory/host_memory.h"

namespace spillway {

/// Locks all of `memory`, as one range (a copy may not cross from one registration to the next),
/// and makes every page of it resident, on huge pages where the system has some. It is unlocked
/// when the memory is given back.
///
/// Order   nothing may be copying there when the memory is given back
/// Fails   Errc::unsupported (no GPU), Errc::out_of_memory, Errc::bad_argument (locked already);
///         the memory may be used pageable then, still on huge pages
[[nodiscard]] Result<void> lock_host_memory(HostMemory& memory);

}  // namespace spillway
