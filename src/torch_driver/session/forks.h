// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// In a forked child the parent's threads are not there: what flies never lands, nobody moves.
#pragma once

namespace spillway {

/// How many forks lie between the process that loaded this library and the calling one. Cheap
/// enough to ask at each allocation.
[[nodiscard]] int forks_so_far();

}  // namespace spillway
