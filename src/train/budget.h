// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Where Spillway comes into play, or does not: the loop talks to this and never to a session.
// The base class is plain training; session_budget.h has the one that opens a session.
#pragma once

#include "spillway/owned.h"
#include "spillway/report.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace spillway::train {

/// That a trace takes: its own, and the one before it, which warms up.
constexpr std::int64_t kTracedSteps = 2;

/// Order  prepare, open, then for each step phase and record as the step goes
class Budget {
  public:
    /// While it lives, what autograd saves is recorded.
    class Scope {
      public:
        virtual ~Scope() = default;
    };

    Budget() = default;
    virtual ~Budget() = default;
    Budget(Budget const&) = delete;
    Budget& operator=(Budget const&) = delete;

    /// Before the process's first tensor.
    virtual void prepare() {}

    /// Before the model's first tensor.
    ///
    /// Throws  BadValue: what the user typed and cannot be
    virtual void open() {}

    /// Tensors that are not activations and stay where they are, with names and kinds in the same
    /// order. A report distinguishes modules by the names of parameters.
    virtual void own(
        std::vector<at::Tensor> const& tensors,
        std::vector<std::string> const& names,
        std::vector<OwnedKind> const& kinds
    );

    /// Optimizer state, between its steps (Session::let_leave) and before one.
    virtual void let_leave(std::vector<at::Tensor> const& states);
    virtual void bring_back(std::vector<at::Tensor> const& states);

    virtual void phase(Phase phase, std::int64_t step);

    /// While it is on, nothing that is recorded is lossy.
    virtual void exact(bool on);

    [[nodiscard]] virtual std::unique_ptr<Scope> record() { return nullptr; }

    /// Writes the trace of the step after the next into a file.
    virtual void trace(std::string const& file);

    /// What the session did; nothing in a plain run.
    [[nodiscard]] virtual std::optional<Report> report() const { return std::nullopt; }

    /// Most bytes that were allocated at one time, where somebody counted.
    [[nodiscard]] virtual std::optional<std::int64_t> allocator_peak_bytes() const {
        return std::nullopt;
    }
};

}  // namespace spillway::train
