// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Torch's CPU allocator, in front of the stock one: threads of a session allocate from its device,
// everything else as before. Counts and limits are the device's; this only forwards.
#pragma once

#include <cstdint>
#include <memory>

namespace spillway {

class TorchSession;

/// Of ours among those that torch knows for a device: above its own.
inline constexpr std::uint8_t kAllocatorPriority = 100;

/// Puts our allocator in front of torch's, once a process.
void install_allocator();

/// How every block of that allocator is freed; a storage with this deleter has one of its blocks,
/// whole.
void free_block(void* block);

/// From now on the calling thread's (or, `whole_process`, every thread's) CPU allocations come from
/// `session`, while it caps and what was passed, which may be of `of_this_thread`, lives; where its
/// device is another one, every thread's on that device. A later call takes its place until that
/// one's session caps no more; then this one's goes on.
void allocate_from(std::shared_ptr<TorchSession> const& session, bool whole_process);

/// The session, in a pointer that stands for the calling thread: with its last copy ends what the
/// session counts and caps on this thread. What is recorded on a thread keeps one. Where the
/// session caps all threads, the session itself.
[[nodiscard]] std::shared_ptr<TorchSession> of_this_thread(
    std::shared_ptr<TorchSession> const& session
);

/// As long as what is returned lives, the calling thread's CPU allocations come from `session`,
/// where they do not come from one that is in use already, and its device is the CPU.
[[nodiscard]] std::shared_ptr<TorchSession> capped_on_this_thread(
    std::shared_ptr<TorchSession> const& session
);

}  // namespace spillway
