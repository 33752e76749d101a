// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A CUDA device of a session: c10's streams and events, and CUDA's own copies, pinning and pool. No
// CUDA header is needed here: a build without CUDA has the same function (no_cuda.cc).
#pragma once

#include "base/result.h"
#include "torch_driver/device/c10_device.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

namespace spillway {

/// Loads torch's CUDA kernels, puts our allocator in front of torch's and limits its pool: what
/// `limit_bytes` (0: none) bounds is what torch reserves, which is what nvidia-smi shows beside the
/// context.
///
/// Fails   Errc::unsupported: this torch or this build has no CUDA; Errc::io: the device fails
[[nodiscard]] Result<std::shared_ptr<C10Device>> open_cuda_device(
    c10::Device where, std::int64_t limit_bytes
);

}  // namespace spillway
