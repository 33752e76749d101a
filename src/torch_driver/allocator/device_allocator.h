// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Torch's allocators of devices with streams, with ours in front of them: what a session's device
// is asked for goes through the session, everything else as before.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <memory>

namespace spillway {

class TorchSession;

/// Puts ours in front of torch's for devices of `type`, once a process. Returns the one behind;
/// nullptr, and nothing is changed, where that reports no statistics.
c10::DeviceAllocator* install_device_allocator(c10::DeviceType type);

/// From now on what any thread allocates on `device`, which is the session's, goes through
/// `session`, while it caps. A later call takes its place until that one's session caps no more.
void allocate_on_device_from(std::shared_ptr<TorchSession> const& session, c10::Device device);

}  // namespace spillway
