// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Choosers: pure advice on what becomes of a saved value. `online` has no profile: it decides from
// what is live, in the order of a rule (base/eviction.h).
#pragma once

#include "executor/advice.h"
#include "executor/event.h"
#include "executor/executor_options.h"
#include "plan/plan.h"

#include <cstdint>
#include <memory>

namespace spillway {

struct Choice {
    Advice advice = Advice::when_asked;
    Pool pool = Pool::host;  ///< the first pool to try; later ones follow
    bool recompute = false;  ///< the plan has it made again: it goes by its recipe when it can
    bool operator==(Choice const&) const = default;
};

/// Thread  not thread-safe; owned by one executor
class Chooser {
  public:
    virtual ~Chooser() = default;
    [[nodiscard]] virtual Choice choose(Saved const& saved) const = 0;
    /// A new plan; choosers that read none ignore it.
    virtual void take_plan(Plan const&) {}
};

[[nodiscard]] std::unique_ptr<Chooser> make_chooser(ChooserKind kind);

}  // namespace spillway
