// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Settings of PyTorch and of the thread, beside an operator's arguments, on which its bits depend.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>

namespace spillway {

/// Of operators on our list (operator_facts): none multiplies matrices, so that precisions of
/// products do not matter.
struct Ambient {
    int threads = 1;  ///< sums are split by it
    c10::ScalarType default_dtype = c10::kFloat;
    std::uint32_t denormals = 0;  ///< whether the thread flushes them to zero, as the CPU has it
    bool is_deterministic = false;
    bool only_warns = false;
    bool has_mkldnn = true;

    bool operator==(Ambient const&) const = default;

    /// As it is on this thread.
    [[nodiscard]] static Ambient now();
};

/// While it lives, this thread has `wanted`; what is no thread's own, the process has it.
class WithAmbient {
  public:
    explicit WithAmbient(Ambient const& wanted);
    ~WithAmbient();
    WithAmbient(WithAmbient const&) = delete;
    WithAmbient& operator=(WithAmbient const&) = delete;

  private:
    static void change(Ambient const& from, Ambient const& to);

    Ambient const before_;
    Ambient const wanted_;
};

}  // namespace spillway
