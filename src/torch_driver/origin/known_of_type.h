// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What is asked of the type of a node at every save: its name is slow to compare, its address is
// not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <typeinfo>

namespace spillway {

/// Remembers the answers for the types that were asked about last.
///
/// Thread  not thread-safe: one a thread
template <typename Answer>
class KnownOfType {
  public:
    /// `find(type)`, or what it answered before.
    template <typename Find>
    [[nodiscard]] Answer of(std::type_info const& type, Find const& find) {
        auto const address = reinterpret_cast<std::uintptr_t>(&type);
        Known& known = known_[address / kSpacing % kTypes];
        if (known.type != &type) {
            known = {&type, find(type)};
        }
        return known.answer;
    }

  private:
    static constexpr std::size_t kTypes = 64;
    static constexpr std::size_t kSpacing = 16;  ///< of type_info objects, at least
    struct Known {
        std::type_info const* type = nullptr;
        Answer answer{};
    };
    std::array<Known, kTypes> known_{};
};

}  // namespace spillway
