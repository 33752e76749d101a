// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/place.h"

namespace spillway {

std::string_view name_of(Pool pool) {
    constexpr std::array<std::string_view, kPools> kNames{"device", "host", "nvme"};
    return kNames[static_cast<std::size_t>(pool)];
}

std::string_view name_of(Lane lane) {
    constexpr std::array<std::string_view, kLanes> kNames{
        "compute", "side", "copy_out", "copy_in", "nvme_write", "nvme_read"};
    return kNames[static_cast<std::size_t>(lane)];
}

}  // namespace spillway
