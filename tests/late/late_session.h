// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Sessions on the late accelerator.
#pragma once

#include "tier/host_tier.h"
#include "torch_driver/device/c10_device.h"
#include "torch_driver/suite/suite.h"

#include <memory>
#include <utility>

namespace spillway {

/// A budget of a handful of values on the first device.
inline SessionOptions small_options(std::int64_t limit_bytes = values(12)) {
    SessionOptions asked;
    asked.device_budget_bytes = limit_bytes;
    asked.device = "late";
    asked.min_value_bytes = 1024;
    return asked;
}

/// Without a thread of the mover's, what runs when is the seed's to say.
inline MoverOptions mover_options(bool own_thread) {
    MoverOptions options;
    options.own_thread = own_thread;
    return options;
}

/// Values leave for pinned memory.
inline std::shared_ptr<TorchSession> open_on_host(
    SessionOptions const& options, std::int64_t host_bytes = values(1024), bool own_thread = false
) {
    SessionDevice device = open_session_device(options);
    auto host = HostTier::open(device.host_memory(host_bytes).value());
    return open_session_on(
        options, std::move(device), std::move(host), nullptr, mover_options(own_thread)
    );
}

/// Values leave for `tier`, through staging that holds a few.
inline std::shared_ptr<TorchSession> open_staged(
    SessionOptions const& options,
    std::unique_ptr<Tier> tier,
    bool own_thread = false,
    std::int64_t staging_bytes = values(4)
) {
    SessionDevice device = open_session_device(options);
    MoverOptions mover = mover_options(own_thread);
    mover.staging = device.host_memory(staging_bytes).value();
    return open_session_on(options, std::move(device), nullptr, std::move(tier), std::move(mover));
}

/// What `steps` steps of a chain of 24 values leave in the gradient of a leaf, on the CPU.
inline Tensor plain_gradient(std::int64_t seed, int steps) {
    c10::Device const device = std::exchange(here(), c10::Device(c10::kCPU));
    Tensor x = leaf(seed);
    for (int step = 0; step < steps; ++step) {
        chain(chain(x)).sum().backward();
    }
    here() = device;
    return x.grad();
}

/// The same steps in `session`: the same bits.
inline void expect_steps_like_plain(
    std::shared_ptr<TorchSession> const& session, std::int64_t seed, int steps
) {
    allocate_from(session, false);
    Tensor x = leaf(seed);
    for (int step = 0; step < steps; ++step) {
        session->loop().begin_step(step);
        recorded(session, [&] { return chain(chain(x)).sum(); }).backward();
    }
    EXPECT_TRUE(at::equal(plain_gradient(seed, steps), x.grad().cpu()));
}

}  // namespace spillway
