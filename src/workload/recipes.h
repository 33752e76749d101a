// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How a value of a tape is made again.
#pragma once

#include "base/ids.h"
#include "trace/recipe.h"
#include "workload/step.h"
#include "workload/tape.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

class RecipeFinder {
  public:
    /// `values`: by tensor; invalid: it is no value.
    RecipeFinder(Tape const& tape, std::vector<ValueId> values, StepRates const& rates)
        : tape_(tape), values_(std::move(values)), rates_(rates) {}

    /// From saved values alone: operators are followed back to them. None: `why` says why not.
    [[nodiscard]] std::optional<RecipeShape> find(TapeTensor tensor, std::string& why);

  private:
    void follow(TapeTensor tensor);
    void use(TapeTensor tensor);

    Tape const& tape_;
    std::vector<ValueId> values_;
    StepRates const& rates_;
    // Of the value that is looked at:
    std::set<std::size_t> operators_;
    std::set<ValueId> sources_;
    bool begins_outside_ = false;
};

}  // namespace spillway
