// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The places beside a device where a session's saved tensors may wait, opened as its options name
// them.
#pragma once

#include "memory/host_memory.h"
#include "spillway/option.h"
#include "tier/tier.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace spillway {

/// What stands against host memory of `size_bytes`, now and here.
[[nodiscard]] std::optional<OptionFault> check_host_place(
    std::int64_t size_bytes, HostLimits const& limits
);

/// Opens the folder that `options` name into `tier`, which stays null without one.
[[nodiscard]] std::optional<OptionFault> open_nvme_place(
    SessionOptions const& options, std::unique_ptr<Tier>& tier
);

}  // namespace spillway
