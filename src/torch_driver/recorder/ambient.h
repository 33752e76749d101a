// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Settings of PyTorch and of the thread, beside an operator's arguments, on which its bits depend.
#pragma once

#include <ATen/Context.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <shared_mutex>

namespace spillway {

/// What products, convolutions and attention depend on, too, on one device. A recipe does not set
/// it: PyTorch tells a precision, and not from which other setting it comes.
struct ProductSettings {
    /// Of oneDNN's products and convolutions, then of CUDA's. What is not the device's stays as it
    /// is here.
    std::array<at::Float32Precision, 4> float32{};
    at::CuBLASReductionOption fp16_reduction{};
    at::CuBLASReductionOption bf16_reduction{};
    bool accumulates_fp16 = false;
    at::BlasBackend blas{};  ///< which of CUDA's libraries multiplies

    bool operator==(ProductSettings const&) const = default;

    [[nodiscard]] static ProductSettings now(c10::DeviceType of);
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
    bool benchmarks_cudnn = false;  ///< cuDNN chooses its algorithms by time

    bool operator==(Ambient const&) const = default;

    /// As it is on this thread.
    [[nodiscard]] static Ambient now();
    /// But for what is a thread's own: number of threads, denormals.
    [[nodiscard]] bool is_same_process(Ambient const& other) const;
};

/// One for each open session. Where there are two, the process's settings stay as they are: the
/// other session may compute meanwhile, on another thread.
///
/// Thread  any
class AmbientUser {
  public:
    AmbientUser() { ++users(); }
    ~AmbientUser() { --users(); }
    AmbientUser(AmbientUser const&) = delete;
    AmbientUser& operator=(AmbientUser const&) = delete;

    [[nodiscard]] static bool is_alone() { return users() <= 1; }

  private:
    static std::atomic<int>& users();
};

/// While it lives, this thread has `wanted`; what is no thread's own, the process has it, also
/// operators of the program that other threads run meanwhile. One at a time changes that, and none
/// lives beside it. A number of threads is also what threads begin with that first use torch
/// meanwhile. What the program changes meanwhile on another thread is lost.
class WithAmbient {
  public:
    explicit WithAmbient(Ambient const& wanted);
    ~WithAmbient();
    WithAmbient(WithAmbient const&) = delete;
    WithAmbient& operator=(WithAmbient const&) = delete;

  private:
    void wait_for_the_process();
    static void change(Ambient const& from, Ambient const& to);

    std::shared_lock<std::shared_mutex> shared_;
    std::unique_lock<std::shared_mutex> alone_;
    Ambient before_;
    Ambient const wanted_;
};

}  // namespace spillway
