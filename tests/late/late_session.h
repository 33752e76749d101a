// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Sessions on the late accelerator.
#pragma once

#include "tier/host_tier.h"
#include "torch_driver/c10_device.h"
#include "torch_driver/suite.h"

#include <memory>
#include <utility>

namespace spillway {

/// Values leave for pinned memory.
inline std::shared_ptr<TorchSession> open_on_host(
    SessionOptions options, std::int64_t host_bytes = values(1024)
) {
    options.device = "late";
    SessionDevice device = open_session_device(options);
    auto host = HostTier::open(device.host_memory(host_bytes).value());
    MoverOptions mover;
    mover.own_thread = false;  // else what runs when is not the seed's to say
    return TorchSession::open_on(
        options, std::move(device), std::move(host), nullptr, std::move(mover)
    );
}

/// Values leave for `tier`, through staging that holds a few.
inline std::shared_ptr<TorchSession> open_staged(
    SessionOptions options, std::unique_ptr<Tier> tier
) {
    options.device = "late";
    SessionDevice device = open_session_device(options);
    MoverOptions mover;
    mover.own_thread = false;
    mover.staging = device.host_memory(values(4)).value();
    return TorchSession::open_on(
        options, std::move(device), nullptr, std::move(tier), std::move(mover)
    );
}

}  // namespace spillway
