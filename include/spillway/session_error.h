// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session throws inside torch calls: torch's own errors, which also carry the facts of their
// message as numbers and codes.
#pragma once

#include "base/phase.h"
#include "spillway/refusal.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <string>
#include <utility>

namespace spillway {

/// The step and the phase in which an error was raised; its message begins with them. A base of the
/// errors below, beside torch's own.
class InStep {
  public:
    InStep(std::int64_t step, Phase phase) : step_(step), phase_(phase) {}
    InStep(InStep const&) = default;
    InStep& operator=(InStep const&) = default;
    virtual ~InStep() = default;

    [[nodiscard]] std::int64_t step() const { return step_; }
    [[nodiscard]] Phase phase() const { return phase_; }

  private:
    std::int64_t step_;
    Phase phase_;
};

/// An allocation that a session's budget has no room for.
class OutOfBudget : public c10::OutOfMemoryError, public InStep {
  public:
    OutOfBudget(c10::SourceLocation at, std::string words, Refusal refusal)
        : c10::OutOfMemoryError(at, std::move(words)),
          InStep(refusal.step, refusal.phase),
          refusal_(std::move(refusal)) {}

    [[nodiscard]] Refusal const& refusal() const { return refusal_; }

  private:
    Refusal refusal_;
};

/// A saved tensor that cannot be brought back.
class ReloadError : public c10::Error, public InStep {
  public:
    ReloadError(c10::SourceLocation at, std::string words, std::int64_t step, Phase phase)
        : c10::Error(at, std::move(words)), InStep(step, phase) {}
};

}  // namespace spillway
