// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/ambient.h"

#include "torch_driver/python/python_lock.h"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace spillway {

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kDenormalBits = 0x8040;  // flush to zero, denormals are zero

std::uint32_t denormals() {
    return _mm_getcsr() & kDenormalBits;
}
void set_denormals(std::uint32_t bits) {
    _mm_setcsr((_mm_getcsr() & ~kDenormalBits) | bits);
}
#else
std::uint32_t denormals() {
    return 0;
}
void set_denormals(std::uint32_t) {}
#endif

}  // namespace

ProductSettings ProductSettings::now(c10::DeviceType of) {
    at::Context const& context = at::globalContext();
    using enum at::Float32Backend;
    using enum at::Float32Op;
    auto const precision = [&](at::Float32Backend backend, at::Float32Op op) {
        at::Float32Precision const set = context.float32Precision(backend, op);
        return set == at::Float32Precision::NONE ? at::Float32Precision::IEEE : set;
    };
    ProductSettings settings;
    if (of == c10::kCPU) {
        settings.float32[0] = precision(MKLDNN, MATMUL);
        settings.float32[1] = precision(MKLDNN, CONV);
        return settings;
    }
    settings.float32[2] = precision(CUDA, MATMUL);
    settings.float32[3] = precision(CUDA, CONV);
    settings.fp16_reduction = context.allowFP16ReductionCuBLAS();
    settings.bf16_reduction = context.allowBF16ReductionCuBLAS();
    settings.blas = at::globalContext().blasPreferredBackend();
    settings.accumulates_fp16 = context.allowFP16AccumulationCuBLAS();
    return settings;
}

std::atomic<int>& AmbientUser::users() {
    static std::atomic<int> users = 0;
    return users;
}

Ambient Ambient::now() {
    at::Context const& context = at::globalContext();
    return {
        .threads = at::get_num_threads(),
        .default_dtype = c10::get_default_dtype_as_scalartype(),
        .denormals = spillway::denormals(),
        .is_deterministic = context.deterministicAlgorithms(),
        .only_warns = context.deterministicAlgorithmsWarnOnly(),
        .has_mkldnn = context.userEnabledMkldnn(),
        .has_cudnn = context.userEnabledCuDNN(),
        .is_cudnn_deterministic = context.deterministicCuDNN(),
        .benchmarks_cudnn = context.benchmarkCuDNN()};
}

bool Ambient::is_same_process(Ambient const& other) const {
    Ambient of_this_thread = other;
    of_this_thread.threads = threads;
    of_this_thread.denormals = denormals;
    return *this == of_this_thread;
}

WithAmbient::WithAmbient(Ambient const& wanted) : wanted_(wanted) {
    wait_for_the_process();
    change(before_, wanted_);
}

namespace {

/// Whoever has it may run a kernel that is written in Python, and wants Python's lock.
template <typename Lock>
void lock_in_turn(Lock& lock) {
    if (!lock.try_lock()) {
        WithoutPythonLock const others_go_on(true);
        lock.lock();
    }
}

}  // namespace

/// Whoever changes nothing of the process goes on beside others that do not.
void WithAmbient::wait_for_the_process() {
    static auto* const process = new std::shared_mutex;  // threads may outlive static objects
    shared_ = std::shared_lock(*process, std::defer_lock);
    lock_in_turn(shared_);
    before_ = Ambient::now();
    if (!before_.is_same_process(wanted_)) {
        shared_.unlock();
        alone_ = std::unique_lock(*process, std::defer_lock);
        lock_in_turn(alone_);
        before_ = Ambient::now();
    }
}

WithAmbient::~WithAmbient() {
    change(wanted_, before_);
}

void WithAmbient::change(Ambient const& from, Ambient const& to) {
    if (from == to) {
        return;
    }
    at::Context& context = at::globalContext();
    if (from.threads != to.threads) {
        at::set_num_threads(to.threads);
    }
    if (from.default_dtype != to.default_dtype) {
        c10::set_default_dtype(c10::scalarTypeToTypeMeta(to.default_dtype));
    }
    set_denormals(to.denormals);
    if (from.is_deterministic != to.is_deterministic || from.only_warns != to.only_warns) {
        context.setDeterministicAlgorithms(to.is_deterministic, to.only_warns);
    }
    if (from.has_mkldnn != to.has_mkldnn) {
        context.setUserEnabledMkldnn(to.has_mkldnn);
    }
    if (from.has_cudnn != to.has_cudnn) {
        context.setUserEnabledCuDNN(to.has_cudnn);
    }
    if (from.is_cudnn_deterministic != to.is_cudnn_deterministic) {
        context.setDeterministicCuDNN(to.is_cudnn_deterministic);
    }
    if (from.benchmarks_cudnn != to.benchmarks_cudnn) {
        context.setBenchmarkCuDNN(to.benchmarks_cudnn);
    }
}

}  // namespace spillway
