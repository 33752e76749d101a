// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session owns beside activations: the model's tensors and what training keeps for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spillway {

/// What an owned tensor is to the model.
enum class OwnedKind : std::uint8_t { parameter, buffer, gradient, optimizer_state };

inline constexpr std::array<std::string_view, 4> kOwnedKindNames{
    "parameter", "buffer", "gradient", "optimizer_state"};

[[nodiscard]] constexpr std::string_view name_of(OwnedKind kind) {
    return kOwnedKindNames[static_cast<std::size_t>(kind)];
}

/// Bytes of storages by kind, in the order of the enumerators.
using OwnedBytes = std::array<std::int64_t, kOwnedKindNames.size()>;

}  // namespace spillway
