// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/checkpoint.h"

#include "policy/stages.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace spillway {

namespace {

Result<Plan> plan_with_every(PlanRequest const& request, std::size_t every) {
    StepView const step(request.trace);
    Result<std::vector<Stage>> const stages = stages_with_recipes(step);
    if (!stages.ok()) {
        return stages.error();
    }
    if (every == 0) {
        every = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(stages->size()))));
    }
    std::vector<StageFate> fates(stages->size(), StageFate::inner);
    for (std::size_t i = 0; i < fates.size(); i += every) {
        fates[i] = StageFate::checkpoint;
    }
    return plan_of_stages(request, step, *stages, fates);
}

}  // namespace

Result<Plan> plan_recompute_all(PlanRequest const& request) {
    return plan_with_every(request, 1);
}

Result<Plan> plan_sqrt_checkpoint(PlanRequest const& request) {
    return plan_with_every(request, static_cast<std::size_t>(request.parameter("every")));
}

}  // namespace spillway
