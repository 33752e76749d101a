// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What opens a session: options are checked, device, tiers and staging are opened, and torch's
// allocator, engine and tensors get to know us.
#pragma once

#include "mover/mover.h"
#include "spillway/session.h"
#include "tier/tier.h"
#include "torch_driver/device/session_device.h"
#include "torch_driver/session/torch_session.h"

#include <memory>

namespace spillway {

/// Throws  BadOption
[[nodiscard]] std::shared_ptr<TorchSession> open_session(SessionOptions const& options);

/// The same on a device and tiers of the caller's; tiers may be null. The policy may also be
/// "planned": what the caller gives to Loop::plan.
[[nodiscard]] std::shared_ptr<TorchSession> open_session_on(
    SessionOptions const& options,
    SessionDevice device,
    std::unique_ptr<Tier> host,
    std::unique_ptr<Tier> nvme,
    MoverOptions mover = {}
);

}  // namespace spillway
