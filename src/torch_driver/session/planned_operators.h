// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which operators a session records whose plan has values made again.
#pragma once

#include "torch_driver/recorder/call.h"

#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace spillway {

/// Those of the recipes by which values went. While more of them are seen, all are recorded. Only
/// entries count after which values were made again: an evaluation runs no plan.
///
/// Thread  not thread-safe
class PlannedOperators {
  public:
    /// For an entry of the session under the plan of that number. `made_again`: values that were so
    /// far. `used`: of all recipes so far.
    ///
    /// Returns null: all are recorded
    [[nodiscard]] std::shared_ptr<OperatorSet const> to_record(
        std::int64_t plan, std::int64_t made_again, c10::function_ref<OperatorSet()> used
    );
    /// The plan was not enough: all are recorded from here on.
    void give_up() { has_given_up_ = true; }

  private:
    std::int64_t plan_ = 0;
    std::int64_t made_again_ = 0;  ///< before the last entry that counts
    std::int64_t entries_ = 0;     ///< in a row that used no other than those before
    std::size_t used_ = 0;
    bool has_given_up_ = false;
    std::shared_ptr<OperatorSet const> known_;
};

}  // namespace spillway
