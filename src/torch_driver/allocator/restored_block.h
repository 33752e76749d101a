// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Device bytes that came back, as a storage of torch's holds them.
#pragma once

#include "memory/device.h"

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <memory>

namespace spillway {

/// Owns `memory`, a block of `device` that was allocated on the stream `own`. When the last tensor
/// lets go of it, on any thread, that stream waits for the others that use it, and then the block
/// is freed, in stream order: `record_stream` would free it at a time that nobody chose.
[[nodiscard]] c10::DataPtr restored_block(
    std::shared_ptr<Device> device, void* memory, c10::Stream own
);

[[nodiscard]] bool is_restored(c10::DataPtr const& data);

/// `stream`, of any device, uses the block, too. False, and nothing is done, where it is no
/// restored one.
///
/// Thread  any
bool add_user(c10::DataPtr const& data, c10::Stream stream);

}  // namespace spillway
