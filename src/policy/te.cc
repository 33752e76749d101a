// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/te.h"

#include "policy/step_view.h"

#include <cstddef>
#include <optional>
#include <string>

namespace spillway {

namespace {

/// " (h.0, h.1)"
std::string named(Units const& units) {
    std::string names;
    for (std::string const& name : units.names) {
        names += (names.empty() ? " (" : ", ") + name;
    }
    return names.empty() ? "" : names + ")";
}

}  // namespace

Result<Plan> plan_te(PlanRequest const& request) {
    StepView const step(request.trace, units_of_layers(request.trace));
    std::size_t const layers = step.units.names.size();
    auto leaving = static_cast<std::size_t>(request.parameter("layers"));
    if (layers < 3) {
        return Error{
            Errc::unsupported,
            "it needs a model of at least three repeated layers, and the step shows " +
                std::to_string(layers) + named(step.units),
            ""};
    }
    if (leaving > layers - 1) {
        return Error{
            Errc::bad_argument,
            "layers is " + std::to_string(leaving) + ", and of " + std::to_string(layers) +
                " layers at most " + std::to_string(layers - 1) + " can leave",
            ""};
    }
    leaving = leaving == 0 ? layers - 2 : leaving;
    Plan plan;
    for (std::size_t i = 0; i < step.values.size(); ++i) {
        ValueId const id{static_cast<std::int64_t>(i)};
        std::optional<std::size_t> const unit = step.units.of_value[i];
        if (!unit || *unit >= leaving || !step.values[i].can_move()) {
            plan.fates[step.slot_of(id)] = {};
            continue;
        }
        plan.fates[step.slot_of(id)] = {
            .kind = FateKind::move,
            .pool = request.pool(),
            .leaves = step.leaving_slot(id, step.last_saved[layers - leaving + *unit - 1]),
            .returns = step.returning_slot(id, step.first_needed[layers - 1 - leaving + *unit])};
    }
    return plan;
}

}  // namespace spillway
