// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Settings of PyTorch and of the thread, beside an operator's arguments, on which its bits depend.
#pragma once

#include <ATen/Context.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <optional>

namespace spillway {

/// What products, convolutions and attention depend on, too. A recipe does not set it: PyTorch
/// tells a precision, and not from which other setting it comes.
struct ProductSettings {
    /// Of oneDNN's products and convolutions, then of CUDA's.
    std::array<at::Float32Precision, 4> float32{};
    at::CuBLASReductionOption fp16_reduction{};
    at::CuBLASReductionOption bf16_reduction{};
    bool accumulates_fp16 = false;

    bool operator==(ProductSettings const&) const = default;

    [[nodiscard]] static ProductSettings now();
};

struct Ambient {
    int threads = 1;  ///< sums are split by it
    c10::ScalarType default_dtype = c10::kFloat;
    std::uint32_t denormals = 0;  ///< whether the thread flushes them to zero, as the CPU has it
    bool is_deterministic = false;
    bool only_warns = false;
    bool has_mkldnn = true;
    bool has_cudnn = true;
    bool is_cudnn_deterministic = false;

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
