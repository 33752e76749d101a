// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The rule that decides, when a tensor is saved, how it is to leave: before the executor sees it. A
// policy without a plan is one of these, and so are the codecs that a plan names.
#pragma once

#include "base/phase.h"
#include "session/saved_as.h"
#include "trace/slot.h"

#include <cstdint>
#include <optional>

namespace spillway {

/// What is known of a tensor when it is saved.
struct SavedTensor {
    TensorClass tensor_class = TensorClass::other;
    std::optional<Dtype> dtype;   ///< none: of a type that no lossy codec takes
    std::int64_t count = 0;       ///< elements of its storage; 0: without `dtype`
    std::int64_t size_bytes = 0;  ///< of the storage, as the device rounds
    bool is_whole = true;         ///< the tensor has every element of its storage
    Phase phase = Phase::forward;
    std::int64_t step = 0;
    Slot const* slot = nullptr;  ///< null: not known
};

/// Thread  asked by every thread that saves, one at a time
class SaveRule {
  public:
    virtual ~SaveRule() = default;
    /// Never waits: it is asked at every save.
    [[nodiscard]] virtual SavedAs of(SavedTensor const& tensor) = 0;
};

}  // namespace spillway
