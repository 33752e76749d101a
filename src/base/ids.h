// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Dense ids. A kind of id is its own type, so that a block is never taken for a value.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace spillway {

/// A small number that names one thing of kind `Tag`; -1 names nothing.
template <typename Tag>
struct Id {
    std::int64_t number = -1;

    [[nodiscard]] constexpr bool valid() const { return number >= 0; }
    [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(number); }
    auto operator<=>(Id const&) const = default;
};

using ValueId = Id<struct ValueTag>;      ///< what one storage holds at one version
using BlockId = Id<struct BlockTag>;      ///< what moves: bytes on a tier
using CommandId = Id<struct CommandTag>;  ///< a command, and the fence that it yields

}  // namespace spillway

template <typename Tag>
struct std::hash<spillway::Id<Tag>> {
    std::size_t operator()(spillway::Id<Tag> id) const noexcept {
        return std::hash<std::int64_t>{}(id.number);
    }
};
