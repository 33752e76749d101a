// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A step as a chain of stages, for policies that checkpoint: of each unit (layer, block) its input,
// and its tape, which is what its forward saves beside that and recipes make again.
#pragma once

#include "base/ids.h"
#include "base/result.h"
#include "plan/plan.h"
#include "policy/planner.h"
#include "policy/step_view.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace spillway {

/// Bytes are of values that are free to leave after the forward; what else the unit saves is
/// nobody's choice. Values smaller than a 256th of the unit's bytes stay: statistics of norms and
/// the like.
struct Stage {
    std::optional<ValueId> input{};  ///< what it saves first; none: that cannot leave
    std::vector<ValueId> tape{};     ///< in the order of their saves; all have recipes
    std::vector<ValueId> others{};   ///< large ones without a recipe: they can only move
    bool input_has_recipe = false;
    std::int64_t input_bytes = 0;
    std::int64_t tape_bytes = 0;
    std::int64_t other_bytes = 0;
    std::int64_t input_ns = 0;    ///< what making it again takes
    std::int64_t tape_ns = 0;     ///< the same, where the input is there
    std::int64_t forward_ns = 0;  ///< its points'
    std::int64_t backward_ns = 0;
    /// Beside stages' values at its points, above `bytes_beside_stages`: an early layer of a
    /// convolutional network has larger gradients than a late one.
    std::int64_t beside_bytes = 0;

    bool operator==(Stage const&) const = default;
};

/// One for each unit, in the order of the forward.
[[nodiscard]] std::vector<Stage> stages_of(StepView const& step);

/// The same, or that nothing can be made again in stages.
///
/// Fails   Errc::unsupported: nothing repeats; no value of a unit has a recipe
[[nodiscard]] Result<std::vector<Stage>> stages_with_recipes(StepView const& step);

/// What becomes of a stage between forward and backward.
enum class StageFate : std::uint8_t {
    keep,        ///< input and tape stay
    checkpoint,  ///< the tape is made again from the input, which stays
    inner,       ///< both are made again, from the stage before
    move,        ///< input, tape and others leave for the pool
    move_input,  ///< the tape is made again from the input, which leaves for the pool
};

/// Held while its backward runs: all of it.
[[nodiscard]] inline std::int64_t whole_bytes(Stage const& stage) {
    return stage.input_bytes + stage.tape_bytes + stage.other_bytes;
}
[[nodiscard]] std::int64_t whole_bytes(std::vector<Stage> const& stages);

/// What stays of an `inner` stage, and what making it again takes.
[[nodiscard]] inline std::int64_t bytes_kept_inside(Stage const& stage) {
    return stage.other_bytes + (stage.input_has_recipe ? 0 : stage.input_bytes);
}
[[nodiscard]] inline std::int64_t remake_inside_ns(Stage const& stage) {
    return stage.tape_ns + (stage.input_has_recipe ? stage.input_ns : 0);
}

/// By stage. Every value has a fate; what is moved is placed in time (place_transfers).
[[nodiscard]] Plan plan_of_stages(
    PlanRequest const& request,
    StepView const& step,
    std::vector<Stage> const& stages,
    std::vector<StageFate> const& fates
);

/// What stays where every stage keeps nothing: floor and values that no stage has, the most of
/// each stage's points, and of all stages the least (`Stage::beside_bytes` has the others').
[[nodiscard]] std::int64_t bytes_beside_stages(
    StepView const& step, std::vector<Stage> const& stages
);

[[nodiscard]] std::int64_t most_bytes_beside(std::vector<Stage> const& stages);

/// The points between the last stage's forward and its backward, the loss, as a stage that saves
/// nothing.
[[nodiscard]] Stage end_stage(StepView const& step, std::vector<Stage> const& stages);

/// Of stages that are made again at once: the runtime brings back no more than half of the budget
/// (executor/recompute.cc).
[[nodiscard]] std::int64_t most_segment_bytes(PlanRequest const& request);

/// A model of a chain is not the step: of the plans that `fates_for` makes for less and less room
/// the quickest that fits, as the simulator says, until four were no quicker. Where none
/// fits, the last.
///
/// Fails   as `forecast` does
[[nodiscard]] Result<Plan> quickest_plan_that_fits(
    PlanRequest const& request,
    StepView const& step,
    std::vector<Stage> const& stages,
    std::function<std::vector<StageFate>(std::int64_t room_bytes)> const& fates_for
);

}  // namespace spillway
