// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The policies that there are, each listed once: the program's --help, Python and errors read their
// names here. A new one is a file in this folder and an entry in catalog.cc.
#pragma once

#include "base/eviction.h"
#include "policy/online_rule.h"
#include "policy/planner.h"
#include "trace/tensor_class.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace spillway {

/// A number that a policy may be given: "te:layers=8".
struct PolicyParameter {
    std::string_view name;
    std::string_view what;  ///< one clause, for people
    double otherwise = 0;   ///< what it is when it is not given
    double least = 0;
    double most = 0;
};

struct Policy {
    std::string_view name;        ///< as options take it
    std::string_view what;        ///< one clause, for people
    std::string_view paper = {};  ///< "authors, place, DOI"; empty: none
    bool moves = true;            ///< false: nothing leaves the device
    bool is_lossy = false;        ///< it has to be allowed with `lossy`
    /// How tensors of a class leave, as `parse_codec` reads it; null: all as they are.
    std::string_view (*codec_of)(TensorClass) = nullptr;
    /// Makes its rule for each save; null: what is needed last leaves first, when the budget asks.
    std::unique_ptr<OnlineRule> (*make_rule)() = nullptr;
    bool recomputes = false;  ///< it also has values made again: its steps need their recipes
    /// Makes its plan of a recorded step (planner.h); null: it decides at run time. With a rule,
    /// too, it decides at run time in a session, and makes plans where it is asked for one.
    Result<Plan> (*make_plan)(PlanRequest const&) = nullptr;
    std::span<PolicyParameter const> parameters{};  ///< of `make_plan`
    bool learns = false;  ///< it mends a plan by what that waited for (PlanRequest::ran)
    /// Which values leave first where it decides at run time.
    EvictionRule eviction = EvictionRule::next_use;
    bool works_without_pool = false;  ///< it moves, and is of use where nothing can, too

    /// Whether it is of no use where nothing can leave the device.
    [[nodiscard]] bool needs_pool() const { return moves && !works_without_pool; }

    /// A session that has it records a step and runs the plan that it makes of it.
    [[nodiscard]] bool plans_in_session() const {
        return make_plan != nullptr && make_rule == nullptr;
    }
};

/// In the order in which people read them; the first is the default.
[[nodiscard]] std::span<Policy const> policies();
/// By its name, which parameters may follow ("te:layers=8"). Null: there is none.
[[nodiscard]] Policy const* find_policy(std::string_view name);
/// "online, keep_all and qpo".
[[nodiscard]] std::string policy_names();

}  // namespace spillway
