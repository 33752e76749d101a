// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The device that --device names: found, loaded, waited for, asked what it allocated.
#pragma once

#include "train/process_stats.h"

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>

namespace spillway::train {

/// How many CUDA devices there are, and where there are none, why.
struct CudaDevices {
    int count = 0;
    std::string why_none;
};

/// Reads "cpu", "cuda" (the first one) or "cuda:N"; touches no device.
///
/// Fails   BadValue naming --device and what was typed
[[nodiscard]] c10::Device device_of(std::string const& typed);

/// Makes sure that `device` is there, for messages as `typed`. `find_cuda` is asked on CUDA only.
///
/// Fails   BadValue naming --device and what was typed
void check_device(
    std::string const& typed, c10::Device device, std::function<CudaDevices()> const& find_cuda
);

/// Loads torch's CUDA kernels, which this program does not link, and counts the devices.
///
/// Order   before torch looks for CUDA for the first time: it keeps what it found then
[[nodiscard]] CudaDevices load_cuda();

/// "cpu", "cuda:0".
[[nodiscard]] std::string name_of(c10::Device device);

/// Waits until all that was enqueued on the device has run.
void synchronize(c10::Device device);

/// The statistics of the device's allocator; nothing where it keeps none: on the CPU, for one.
[[nodiscard]] std::optional<DeviceMemory> device_memory(c10::Device device);

/// What is cached goes back to the device, and peaks start again from what is in use.
void reset_device_memory(c10::Device device);

}  // namespace spillway::train
