// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// TBA, later SSDTrain: activations to NVMe as far as writing hides behind compute (Kun Wu et al.,
// arXiv:2408.10013, 2024; DAC 2025).
#pragma once

#include "policy/planner.h"

namespace spillway {

/// Note [TBA: what is the authors', what is ours]
/// Theirs (paper and code, K-Wu/FlashTrain): modules are looked at in forward order; the first one,
/// k, for which the bytes written before it and its own, written and read, take longer at the write
/// rate W than the rest of the step (V_k / T_k > W, V_k = sum of s_j before k + 2 s_k, T_k = 3 F -
/// 2 sum of f_j before k, backward taken as twice the forward) and all after it are kept; the last
/// module always is. Loads are issued two leaf modules ahead in reverse order. Only tensors of 8 Mi
/// elements and more move. Ours: a module is what the trace names so, else a unit; W is the
/// machine's rate to the pool while bytes move both ways; a value's device bytes go at the first
/// save by which its store is foretold to have ended, so that nothing waits. Deduplication and
/// forwarding are the runtime's: it moves storages, and a value that is needed before its store has
/// ended never left.
///
/// Parameters  least_bytes: smaller values stay; theirs is 8 Mi elements, 16 MiB in 16 bits
[[nodiscard]] Result<Plan> plan_tba(PlanRequest const& request);

/// As `plan_tba`, and of the modules after the cut those values that a recipe can make again are,
/// the last module kept: what the authors name as future work ("offload first, recompute middle,
/// keep last"). Without a budget all of them, else the oldest, as many as it takes to fit
/// (*reconstructed*).
[[nodiscard]] Result<Plan> plan_tba_recompute(PlanRequest const& request);

/// One module of the forward.
struct TbaModule {
    std::int64_t size_bytes = 0;  ///< s_j: that can move
    std::int64_t forward_ns = 0;  ///< f_j

    bool operator==(TbaModule const&) const = default;
};

/// How many modules leave: the k of the rule, at most all but the last. `write_rate`: bytes a
/// second.
[[nodiscard]] std::size_t tba_cut(std::vector<TbaModule> const& modules, double write_rate);

}  // namespace spillway
