// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What autograd saved in the last forward, save by save, and where in the model: for people who ask
// why a tensor stayed or left.
#pragma once

#include "base/ids.h"
#include "base/mutex.h"
#include "session/history.h"
#include "session/trace_recorder.h"
#include "torch_driver/origin/saves.h"
#include "torch_driver/recorder/observer.h"

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace spillway {

/// How a value can be made again ("gelu of addmm's result, 1 operator, 0.4 ms"), or why not.
struct RecipeWords {
    bool is_there = false;
    std::string words;
    std::function<std::int64_t()> exact_duration_ns;  ///< see Recipe
};

/// Thread  any; one mutex, and nothing else is called under it
class SaveLog {
  public:
    /// Saves are kept from now on.
    void keep() { is_kept_ = true; }
    [[nodiscard]] bool is_kept() const { return is_kept_; }

    void begin_pass();
    /// Forgets the oldest saves where one forward has some hundred thousand, as in a session that
    /// is entered for a whole training and in which no step is ever reported.
    void add(Save save, RunningOperators const& by);

    /// How the value can be made again, in words, or why not.
    void add_recipe(ValueId value, RecipeWords words);

    /// A table of the saves whose place begins with `module` (empty: all): place and role
    /// (saves.h), bytes, and why it stayed or where it went; then their sum. No hook runs in the
    /// model for it.
    [[nodiscard]] std::string explain(
        std::string const& module, std::map<ValueId, History> const& histories
    ) const;

    /// Of the values among the saves: the module of the first that saved each.
    [[nodiscard]] std::unordered_map<ValueId, std::string> modules() const;
    /// With that, why a value cannot be made again, and how long it takes; waits for the device.
    [[nodiscard]] std::unordered_map<ValueId, TraceWords> trace_words() const;

  private:
    /// `name` as it is kept here, maybe as `likely`; null where it is empty.
    [[nodiscard]] std::string const* kept(std::string_view name, std::string const* likely)
        SPILLWAY_REQUIRES(mutex_);

    std::atomic<bool> is_kept_ = false;
    mutable Mutex mutex_;
    std::vector<Save> saves_ SPILLWAY_GUARDED_BY(mutex_);
    std::unordered_map<ValueId, RecipeWords> recipes_ SPILLWAY_GUARDED_BY(mutex_);
    /// Names that saves refer to.
    std::set<std::string, std::less<>> operators_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
