// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/families.h"

namespace spillway {

std::size_t Families::root_of(std::int64_t family) const {
    auto at = static_cast<std::size_t>(family - first_);
    while (parents_[at] != at) {
        at = parents_[at] = parents_[parents_[at]];
    }
    return at;
}

void Families::join(std::int64_t one, std::int64_t other) {
    std::size_t const from = root_of(one);
    std::size_t const into = root_of(other);
    parents_[from] = into;
    shrunk_at_[into] = std::max(shrunk_at_[into], shrunk_at_[from]);
}

}  // namespace spillway
