// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// When chosen values leave and return, if each transfer is to hide behind compute: stores in the
// order in which values become free to leave, loads in the order in which they are needed, one at a
// time each way, at the links' rates. Policies whose papers move "as soon as it is stored" and
// "just in time" place their times so.
#pragma once

#include "base/ids.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "plan/planned_codec.h"
#include "policy/planner.h"
#include "policy/step_view.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace spillway {

/// Bytes a second, while the other way is busy, too.
struct TransferRates {
    double out = 0;
    double in = 0;
    std::int64_t latency_ns = 0;
    CodecRates codec{};
};

/// Time for `size_bytes` at `rate` bytes a second; 0 where that is not known.
[[nodiscard]] std::int64_t took_ns(std::int64_t size_bytes, double rate);

/// Of the machine's links between the device and `pool`; zeros: there are none.
[[nodiscard]] TransferRates transfer_rates(Machine const& machine, Pool pool);

/// All pools with a budget and links both ways together, while nothing goes the other way: what no
/// plan moves more of. Bytes a second and bytes; zeros: nothing can move.
struct AllPools {
    double out_rate = 0;
    double in_rate = 0;
    std::int64_t capacity_bytes = 0;
};
[[nodiscard]] AllPools all_pools(Machine const& machine, Budgets const& budgets);

/// Gives each of `moved`, all of which can move, its fate in `plan`, by the codec that `plan` has
/// for it already: it leaves at the first save by
/// which its store has ended, or by need if there is no such save, and returns at the last need
/// that leaves its load enough time, at the first of all if that is none.
void place_transfers(
    StepView const& step,
    std::vector<ValueId> const& moved,
    TransferRates const& rates,
    Pool pool,
    Plan& plan
);

/// The value whose first need is the last by then; of those at one time the one saved last. None:
/// nothing is needed so early.
[[nodiscard]] std::optional<ValueId> last_need_by(StepView const& step, std::int64_t at_ns);

/// Keeps every value that `plan` does not name yet.
void keep_the_rest(StepView const& step, Plan& plan);

/// The device's peak if the values of `moved` were away from where they can leave to where they are
/// needed, whatever the links.
[[nodiscard]] std::int64_t peak_without(StepView const& step, std::vector<ValueId> const& moved);

/// The first of `order`, no more than it takes for that peak to be within `budget` while those of
/// `away` are away, too; all of them where that is not enough, none where the budget is 0.
[[nodiscard]] std::vector<ValueId> fewest_that_fit(
    StepView const& step,
    std::vector<ValueId> const& away,
    std::vector<ValueId> order,
    std::int64_t budget
);

}  // namespace spillway
