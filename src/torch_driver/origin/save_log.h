// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What autograd saved in the last forward, save by save, and where in the model: for people who ask
// why a tensor stayed or left.
#pragma once

#include "base/ids.h"
#include "base/mutex.h"
#include "session/history.h"
#include "torch_driver/origin/saves.h"
#include "torch_driver/recorder/operator_name.h"

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace spillway {

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

    /// A table of the saves whose place begins with `module` (empty: all): place and role
    /// (saves.h), bytes, and why it stayed or where it went; then their sum. No hook runs in the
    /// model for it.
    [[nodiscard]] std::string explain(
        std::string const& module, std::map<ValueId, History> const& histories
    ) const;

    /// Of the values among the saves: the module of the first that saved each.
    [[nodiscard]] std::unordered_map<ValueId, std::string> modules() const;

  private:
    /// `name` as it is kept here, maybe as `likely`; null where it is empty.
    [[nodiscard]] std::string const* kept(std::string_view name, std::string const* likely)
        SPILLWAY_REQUIRES(mutex_);

    std::atomic<bool> is_kept_ = false;
    mutable Mutex mutex_;
    std::vector<Save> saves_ SPILLWAY_GUARDED_BY(mutex_);
    /// Names that saves refer to.
    std::set<std::string, std::less<>> operators_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
