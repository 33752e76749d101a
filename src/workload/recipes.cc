// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "workload/recipes.h"

#include "workload/step_times.h"

namespace spillway {

std::optional<RecipeShape> RecipeFinder::find(TapeTensor tensor, std::string& why) {
    TapeTensorInfo const& info = tape_.tensors()[tensor.number];
    if (!info.maker || info.is_random) {
        why = info.maker ? "made of random numbers" : "made outside the step";
        return std::nullopt;
    }
    operators_.clear();
    sources_.clear();
    begins_outside_ = false;
    follow(tensor);
    if (begins_outside_) {
        why = "made of what is outside the step";
        return std::nullopt;
    }
    RecipeShape recipe{.sources = {sources_.begin(), sources_.end()}};
    recipe.calls = std::ssize(operators_);
    for (std::size_t const at : operators_) {
        recipe.duration_ns += forward_ns(tape_, at, rates_);
        for (TapeTensor const made : tape_.outputs(at)) {
            recipe.transient_bytes += tape_.tensors()[made.number].size_bytes;
        }
    }
    recipe.transient_bytes -= info.size_bytes;
    return recipe;
}

/// Runs the maker of `tensor`, and what makes its inputs where they are no values.
void RecipeFinder::follow(TapeTensor tensor) {
    TapeTensorInfo const& info = tape_.tensors()[tensor.number];
    if (!info.maker) {
        begins_outside_ = true;
        return;
    }
    if (!operators_.insert(*info.maker).second) {
        return;
    }
    for (TapeTensor const input : tape_.operators()[*info.maker].inputs) {
        use(input);
    }
    for (TapeTensor const made : tape_.outputs(*info.maker)) {
        if (tape_.tensors()[made.number].is_random) {
            use(made);
        }
    }
}

void RecipeFinder::use(TapeTensor tensor) {
    ValueId const value = values_[tensor.number];
    if (value.valid()) {
        sources_.insert(value);
    } else {
        follow(tensor);
    }
}

}  // namespace spillway
