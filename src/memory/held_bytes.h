// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Device bytes that a move reads or fills.
#pragma once

#include "memory/device.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace spillway {

/// Bytes of a device, what keeps them alive, and the streams that may use them.
struct HeldBytes {
    std::span<std::byte> bytes{};
    std::shared_ptr<void const> hold{};  ///< the second owner of the bytes, while a move uses them
    /// First the one that the block is freed on; none: no streams.
    std::vector<StreamId> streams{};
};

}  // namespace spillway
