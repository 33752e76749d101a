// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which codec a saved tensor leaves by, according to the session's rule at that time.
#pragma once

#include "base/phase.h"
#include "session/codec_rule.h"
#include "session/loop.h"
#include "torch_driver/autograd/saved_tensors.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace spillway {

/// Thread  any; one mutex, under which the rule alone is asked
class CodecChoice {
  public:
    explicit CodecChoice(std::unique_ptr<CodecRule> rule);

    void phase_begins(Phase phase);
    /// A backward asks for a value.
    void backward_needs();
    /// While it is on, no codec that loses anything is chosen, whatever the rule asks for.
    void exact(bool on) { exact_ = on; }

    /// How `fresh` is to leave, which is saved in `phase` of `step`. As it is where its bytes are
    /// no whole number of elements; without loss where torch is asked for equal bits.
    [[nodiscard]] SavedAs of(SavedTensors::Fresh const& fresh, Phase phase, std::int64_t step);

  private:
    std::atomic<bool> exact_ = false;
    std::mutex mutex_;
    std::unique_ptr<CodecRule> const rule_;  ///< the mutex guards what it points to
};

}  // namespace spillway
