// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Torch's CUDA allocator with ours in front of it, which lets a session make room around each
// allocation and hands everything else on. No CUDA header is needed here: a build without CUDA has
// the same functions (no_cuda.cc).
#pragma once

#include "base/result.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace spillway {

/// Runs around every allocation of at least a byte on a CUDA device, on the thread that asks for
/// it. `allocate` asks the allocator behind ours for the block; it throws c10::OutOfMemoryError
/// where that has no room, and may then be called again. Before this returns, `allocate` has
/// returned once and is not called again; or this throws, and so does the allocation. Blocks are
/// the inner allocator's own: deleters, streams, pools and IPC are as they would be without us.
/// Only what comes back to autograd has a deleter of ours (restored_block.h).
///
/// Thread  any, several at once; it must be fast where there is nothing to do
///
/// `stream` is the one that the block is asked for on; nothing: the calling thread's.
using AllocateThrough = void (*)(
    std::size_t size_bytes,
    c10::Device device,
    std::optional<c10::Stream> stream,
    c10::function_ref<void*()> allocate
);

/// Loads libtorch_cuda, a gigabyte, so that torch has its CUDA kernels in a program that links
/// libtorch_cpu only. At once where it is loaded already, as it is in Python.
///
/// Order   before the first question to torch that concerns CUDA (a backward asks one): what torch
///         finds then, it keeps for the life of the process
/// Fails   Errc::unsupported: this torch has none, or was asked before
[[nodiscard]] Result<void> load_cuda_kernels();

/// Puts our allocator in front of the current one. Once a process; later calls only change
/// `through` (nullptr: nothing runs around allocations). Returns the one behind; nullptr in a build
/// without CUDA.
///
/// Order   before or after torch has initialized CUDA; not while another thread calls it
c10::DeviceAllocator* install_cuda_allocator(AllocateThrough through);

/// From now on torch's own pool on `device` reserves at most `limit_bytes` (0: all of the GPU's).
/// What is reserved already stays.
///
/// Fails   Errc::bad_argument (negative), Errc::unsupported: torch has not initialized CUDA yet
[[nodiscard]] Result<void> limit_cuda_pool(c10::DeviceIndex device, std::int64_t limit_bytes);

/// From now on torch's pools take memory in segments that grow and shrink in place
/// (expandable_segments). Under a limit a pool of fixed segments refuses what would fit, since what
/// is free lies in pieces. Settings of the program's own are left as they are.
///
/// Order   what is reserved already stays as it is
void prefer_expandable_segments();

}  // namespace spillway
