// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/places.h"

#include "base/units.h"
#include "spillway/limits.h"
#include "tier/nvme_tier.h"
#include "tier/rate_limited_tier.h"

#include <utility>

namespace spillway {

namespace {

/// A hundredth more than is free is let through: others may have written since a share was taken.
std::optional<OptionFault> check_nvme_budget(
    SessionOptions const& options, std::int64_t free_bytes
) {
    if (options.nvme_budget_bytes <= free_bytes + free_bytes / 100) {
        return std::nullopt;
    }
    return OptionFault{
        .code = OptionCode::above_free,
        .option = "nvme_budget_bytes",
        .given = options.nvme,
        .number = options.nvme_budget_bytes,
        .bound = free_bytes};
}

}  // namespace

std::optional<OptionFault> check_host_place(std::int64_t size_bytes, HostLimits const& limits) {
    Result<void> const fits = check_host_budget(size_bytes, limits);
    if (fits.ok()) {
        return std::nullopt;
    }
    return OptionFault{
        .option = "host_budget_bytes",
        .number = size_bytes,
        .bound = limits.left_bytes(),
        .detail = fits.error().message()};
}

std::optional<OptionFault> open_nvme_place(
    SessionOptions const& options, std::unique_ptr<Tier>& tier
) {
    if (options.nvme.empty()) {
        return std::nullopt;
    }
    NvmeOptions nvme;
    nvme.folder = options.nvme;
    nvme.capacity_bytes = options.nvme_budget_bytes;
    nvme.allow_tmpfs = options.nvme_allow_tmpfs;
    std::int64_t const free_bytes = free_bytes_of(options.nvme);  // before the tier's own file
    Result<std::unique_ptr<Tier>> opened = open_nvme_tier(nvme);
    if (!opened.ok()) {
        return OptionFault{.option = "nvme", .detail = opened.error().message()};
    }
    if (std::optional<OptionFault> above = check_nvme_budget(options, free_bytes)) {
        return above;
    }
    tier = std::move(opened).value();
    if (options.nvme_rate_bytes_per_s > 0) {
        BytesPerSec const rate{static_cast<double>(options.nvme_rate_bytes_per_s)};
        tier = std::make_unique<RateLimitedTier>(std::move(tier), rate);
    }
    return std::nullopt;
}

}  // namespace spillway
