// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Statistics of this process, from the kernel and from an accelerator's allocator. Free of torch.
#pragma once

#include <cstdint>
#include <optional>

namespace spillway::train {

/// VmHWM: the most memory that was resident at one time.
[[nodiscard]] std::optional<std::int64_t> process_peak_bytes();

/// VmRSS: what is resident now.
[[nodiscard]] std::optional<std::int64_t> resident_bytes();

/// Bytes that reached, or came from, block devices.
struct DiskBytes {
    std::int64_t read = 0;
    std::int64_t written = 0;
};

[[nodiscard]] std::optional<DiskBytes> disk_bytes();

/// Most bytes of an accelerator at one time (train/device.h asks for them).
struct DeviceMemory {
    std::int64_t allocated_peak_bytes = 0;  ///< in tensors, as the allocator rounds
    std::int64_t reserved_peak_bytes = 0;   ///< taken from the device, its caches included
};

}  // namespace spillway::train
