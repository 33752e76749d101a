// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How a saved value is made again: a recipe whose sources are other saved values, parameters and
// buffers, or copies of what is small.
#pragma once

#include "base/ids.h"
#include "base/mutex.h"
#include "torch_driver/recompute/recipe.h"
#include "torch_driver/recorder/copied_source.h"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

namespace spillway {

struct SavedRecipe {
    /// A value that a recipe is made from, or something else.
    using Source = std::variant<ValueId, std::shared_ptr<CopiedSource>>;

    Recipe recipe;
    std::vector<Source> sources;  ///< in the recipe's order

    /// The values among them, each once.
    [[nodiscard]] std::vector<ValueId> values() const;
    /// What it uses as it lies there, an operator has written since.
    [[nodiscard]] bool is_written() const;
};

/// Which signatures of recipes were run beside the value that lived, and gave its bits.
///
/// Thread  any
class ProvedRecipes {
  public:
    enum class Verdict : std::uint8_t { unknown, same, differs };

    [[nodiscard]] Verdict of(std::uint64_t signature) const;
    void add(std::uint64_t signature, bool is_same);
    /// That gave other bits.
    [[nodiscard]] std::int64_t refused() const;

  private:
    mutable Mutex mutex_;
    std::unordered_map<std::uint64_t, bool> is_same_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
