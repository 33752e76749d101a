// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A plan that a session is given with its options, in a file.
#pragma once

#include "plan/plan.h"
#include "spillway/option.h"

#include <optional>

namespace spillway {

/// The places beside the device that a session has.
struct Places {
    bool host = false;
    bool nvme = false;
};

/// Reads the file `options.plan` into `plan`, which stays empty without one. Its codecs exist, and
/// lose nothing without `options.lossy`.
[[nodiscard]] std::optional<OptionFault> read_given_plan(
    SessionOptions const& options, std::optional<Plan>& plan
);

/// Whether values go where there is a place, and are made again only where `options.recompute`
/// allows it. What of the plan is not of the step is only seen when it runs: it has no effect.
[[nodiscard]] std::optional<OptionFault> check_given_plan(
    SessionOptions const& options, Plan const& plan, Places const& places
);

}  // namespace spillway
