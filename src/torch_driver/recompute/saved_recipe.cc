// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recompute/saved_recipe.h"

#include <algorithm>

namespace spillway {

std::vector<ValueId> SavedRecipe::values() const {
    std::vector<ValueId> values;
    for (Source const& source : sources) {
        auto const* const value = std::get_if<ValueId>(&source);
        if (value != nullptr && std::find(values.begin(), values.end(), *value) == values.end()) {
            values.push_back(*value);
        }
    }
    return values;
}

bool SavedRecipe::is_written() const {
    for (std::size_t i = 0; i < sources.size(); ++i) {
        auto const* const other = std::get_if<std::shared_ptr<CopiedSource>>(&sources[i]);
        if (other != nullptr && !(*other)->has_copy() && recipe.sources()[i]->is_written) {
            return true;
        }
    }
    return false;
}

ProvedRecipes::Verdict ProvedRecipes::of(std::uint64_t signature) const {
    MutexLock const lock(mutex_);
    auto const found = is_same_.find(signature);
    return found == is_same_.end() ? Verdict::unknown
           : found->second         ? Verdict::same
                                   : Verdict::differs;
}

/// One difference refuses it for good.
void ProvedRecipes::add(std::uint64_t signature, bool is_same) {
    MutexLock const lock(mutex_);
    auto const [at, is_new] = is_same_.emplace(signature, is_same);
    at->second = at->second && is_same;
}

std::int64_t ProvedRecipes::refused() const {
    MutexLock const lock(mutex_);
    return std::count_if(is_same_.begin(), is_same_.end(), [](auto const& known) {
        return !known.second;
    });
}

}  // namespace spillway
