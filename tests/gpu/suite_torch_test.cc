// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The runtime's suite on a GPU: each case beside the same case of plain autograd there. Skipped,
// with the reason, where there is none.

#include "tier/host_tier.h"
#include "torch_driver/suite/suite.h"
#include "train/device.h"

#include <ATen/Context.h>

#include <cstdlib>
#include <utility>

namespace spillway {
namespace {

/// What cuBLAS takes for itself counts, and the budgets here are of a few values.
void keep_workspaces_small() {
    (void)::setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
    (void)::setenv("CUBLASLT_WORKSPACE_SIZE", "128", 1);  // KiB
}

class Gpu final : public testing::Environment {
    void SetUp() override {
        keep_workspaces_small();
        train::CudaDevices const found = train::load_cuda();
        if (found.count == 0) {
            GTEST_SKIP() << found.why_none;
        }
        at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
        at::globalContext().setDeterministicFillUninitializedMemory(false);
    }
};

testing::Environment* const environment = testing::AddGlobalTestEnvironment(new Gpu);

/// Values leave for pinned memory, or, through staging, for `tier`.
std::shared_ptr<TorchSession> open_there(
    SessionOptions options, std::unique_ptr<Tier> tier, bool any
) {
    options.device = "cuda:0";
    SessionDevice device = open_session_device(options);
    if (any) {
        auto host = HostTier::open(device.host_memory(values(48)).value());
        return open_session_on(options, std::move(device), std::move(host), nullptr);
    }
    MoverOptions mover;
    mover.staging = device.host_memory(values(4)).value();
    return open_session_on(options, std::move(device), nullptr, std::move(tier), std::move(mover));
}

}  // namespace

/// 16 MiB a value: torch takes a segment for each, so that what it reserves is what is used.
Suite const& suite() {
    static Suite const gpu{
        .device = c10::Device(c10::kCUDA, 0),
        .plain = c10::Device(c10::kCUDA, 0),
        .rows = 2048,
        .open = open_there};
    return gpu;
}

}  // namespace spillway
