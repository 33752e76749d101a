// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// DELTA's choice at run time, without a profile: a filter that names what leaves next, and a
// director that says whether it is moved or made again (Yu Tang et al., arXiv:2203.15980, 2022).
#pragma once

#include "base/ids.h"
#include "executor/value_table.h"

#include <cstdint>
#include <vector>

namespace spillway {

/// Note [DELTA: what is the authors', what is ours]
/// Theirs, by their fork of PyTorch (TonyTangYu/pytorch) and its intention where the code differs
/// (units): the filter takes the storage of the largest size x staleness, what it costs to bring it
/// back left out; those below 1 % of the mean size are passed over. The director compares twice the
/// move, at 0.35 of 32 GiB a second until one was measured, with the time that making it took: a
/// ratio above 1 has it made again. What nobody refers to goes first.
/// Ours: staleness counts the saves and needs since a value was saved or needed, since a choice
/// reads no clock; the mean is of what could leave now, and small values leave when nothing else is
/// left; what is measured are the link's rates, not each tensor's own swap; stores begin ahead, in
/// the same order, so that they hide. What the director's way has no room for goes the other way.
/// Not taken over: the prefetch queue (commented out in their code; ours reads ahead what is needed
/// next) and the knapsack of the version in ACM TACO (DOI 10.1145/3689338).

/// The filter: the values of `some`, those that leave first in front; of equal ones the older.
///
/// Thread  re-entrant
[[nodiscard]] std::vector<ValueId> delta_order(ValueTable const& values, std::vector<ValueId> some);

/// The director: whether a value of `size_bytes` is made again, which takes `remake_ns`, instead of
/// moved. `move_ns`: measured, out and back; 0: none was.
[[nodiscard]] bool delta_remakes(
    std::int64_t size_bytes, std::int64_t move_ns, std::int64_t remake_ns
);

}  // namespace spillway
