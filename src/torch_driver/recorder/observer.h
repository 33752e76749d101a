// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which operators run on this thread: so that a refusal can name the one that asked for the bytes,
// `explain` the one that saved a tensor, and a save its node and its class.
#pragma once

#include "torch_driver/recorder/operator_callback.h"
#include "torch_driver/recorder/operator_kind.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace spillway {

/// What is observed of an operator; each level has what those before it have.
enum class ObserverLevel : std::uint8_t {
    names,      ///< its name and its node: about 0.1 us an operator
    arguments,  ///< the tensors that it works on: about 0.3 us
};
inline constexpr std::size_t kObserverLevels = 2;

/// Observes operators on the calling thread while it lives, with those that run the same backward
/// for it; for ever, where it ends on another thread. Many of a level cost what one costs.
class OperatorObserver {
  public:
    explicit OperatorObserver(ObserverLevel level);
    ~OperatorObserver();
    OperatorObserver(OperatorObserver const&) = delete;
    OperatorObserver& operator=(OperatorObserver const&) = delete;

  private:
    /// That all of the level on the thread share; null: the thread has one that is not ours.
    std::shared_ptr<OperatorCallback> callback_;
};

/// "aten::addmm", or "an allocation" when no observed operator runs.
[[nodiscard]] std::string current_operator();

/// Valid until the operator ends; empty when none runs.
struct RunningOperators {
    std::string_view outer;  ///< that the model called: "aten::linear"
    std::string_view inner;  ///< inside it, maybe the same: "aten::addmm"
};
[[nodiscard]] RunningOperators running_operators();

/// Whether the innermost operator has made one autograd node so far, and no more. False where it
/// records none, and where no observed operator runs.
[[nodiscard]] bool operator_made_one_node();

/// The innermost operator that runs on this thread, and the one around it. `unknown` where none
/// does, where it is none that is known, and where arguments are not observed.
struct OpenOperators {
    OpenOperator inner;
    OpenOperator outer;
};
[[nodiscard]] OpenOperators open_operators();

}  // namespace spillway
