// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Numbers that depend on their key alone. CUDA kernels use them, too: constexpr throughout.
#pragma once

#include <cstdint>

namespace spillway {

/// SplitMix64: one step and its finalizer, a bijection that looks random.
///
/// Source  Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014
constexpr std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
}

}  // namespace spillway
