// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/tier.h"

namespace spillway {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
    if (this != &other) {
        reset();
        tier_ = std::exchange(other.tier_, nullptr);
        entry_ = std::exchange(other.entry_, -1);
        size_bytes_ = std::exchange(other.size_bytes_, 0);
    }
    return *this;
}

void Reservation::reset() noexcept {
    if (tier_ != nullptr) {
        tier_->give_entry_back(entry_);
        tier_ = nullptr;
    }
}

Result<Reservation> Tier::reserve(std::int64_t size_bytes) {
    SPILLWAY_ASSERT(size_bytes > 0, "a block has at least one byte");
    Result<std::int64_t> entry = take_entry(size_bytes);
    if (!entry.ok()) {
        return entry.error();
    }
    return Reservation(this, *entry, size_bytes);
}

Result<void> Tier::register_memory(std::span<std::byte>) {
    return Error{Errc::unsupported, "this tier does not register memory", name()};
}

void Tier::forget_memory(std::span<std::byte>) noexcept {}

std::span<std::byte> Tier::memory(Reservation const&) {
    return {};
}

Result<void> Tier::damage(Reservation const&, std::int64_t, std::int64_t, std::byte) {
    return Error{Errc::unsupported, "this tier cannot be damaged", name()};
}

}  // namespace spillway
