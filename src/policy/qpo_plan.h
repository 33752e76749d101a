// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// QPO (qpo.h) as a plan of a recorded step.
#pragma once

#include "policy/planner.h"
#include "policy/step_view.h"
#include "policy/transfer_times.h"
#include "trace/tensor_class.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace spillway {

/// Note [QPO planned: what is the authors', what is ours]
/// Theirs, as far as the abstract says: as in qpo.h. All of the rest is *reconstructed*: extra bits
/// cost nothing while the copy hides, so that of the codes, by class, the widest is taken with
/// which it does:
///
///     raw < masks and signs in one bit < linear layers' inputs in 8 bits <
///     norms' and activation functions' inputs in 8 bits, too < linear layers' inputs in 4 bits
///
/// Convolutions are as linear layers. There is no code of 16 bits: it is raw in half precision.
/// With each code, what moves is what can be out and back in time, value by value (the rest, the
/// last values of the forward, is kept), and of the rest the oldest as far as the budget asks for
/// them. The simulator judges: the widest code whose step is within 1 % of the quickest's. Without
/// a budget that asks for more, this is raw.
///
/// Fails   Errc::unsupported: the machine's rates of codecs are not known
[[nodiscard]] Result<Plan> plan_qpo(PlanRequest const& request);

/// By class the codec; empty: as it is.
using QpoCodes = std::array<std::string_view, kTensorClasses>;

/// From raw to the narrowest, which is `qpo_codec`'s.
[[nodiscard]] std::vector<QpoCodes> qpo_widths();

/// Of each value of the step: what it takes outside the device with these codes. A code that does
/// not take it, or makes it no smaller, is none.
struct QpoSizes {
    std::vector<std::int64_t> away_bytes;
    std::vector<std::string_view> codecs;  ///< empty: it goes as it is
};
[[nodiscard]] QpoSizes qpo_sizes(Trace const& trace, QpoCodes const& codes);

/// The values that are out before their return has to begin: stores in the order in which values
/// become free, loads just in time, one at a time each way; a value that would be late is kept and
/// takes no time.
[[nodiscard]] std::vector<ValueId> qpo_hidden(
    StepView const& step, QpoSizes const& sizes, TransferRates const& rates
);

}  // namespace spillway
