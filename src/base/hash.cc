// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/hash.h"

#define XXH_STATIC_LINKING_ONLY  // the size of its state
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // the widest vectors that this machine has
#endif

#include <new>

namespace spillway {

static_assert(sizeof(XXH3_state_t) == 576 && alignof(XXH3_state_t) <= 64);

Hash::Hash() {
    auto* const state = new (state_) XXH3_state_t;
    XXH3_64bits_reset(state);
}

void Hash::add(std::span<std::byte const> bytes) {
    XXH3_64bits_update(
        std::launder(reinterpret_cast<XXH3_state_t*>(state_)), bytes.data(), bytes.size()
    );
}

std::uint64_t Hash::value() const {
    return XXH3_64bits_digest(std::launder(reinterpret_cast<XXH3_state_t const*>(state_)));
}

}  // namespace spillway
