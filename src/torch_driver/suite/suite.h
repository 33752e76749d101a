// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the tests of the runtime share. They run on the CPU, on the late accelerator (tests/late)
// and, where there is one, on a GPU (tests/gpu); each program defines in `suite()` what is its own.
#pragma once

#include "base/units.h"
#include "tier/faulty_tier.h"
#include "tier/memory_tier.h"
#include "torch_driver/allocator/allocator.h"
#include "torch_driver/device/session_device.h"
#include "torch_driver/session/entered.h"
#include "torch_driver/session/open_session.h"
#include "torch_driver/session/torch_session.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// What differs from program to program.
struct Suite {
    c10::Device device;
    /// Where what is expected is computed: the CPU, but for a GPU, whose operators have other bits.
    c10::Device plain = c10::kCPU;
    std::int64_t rows = 256;  ///< and columns, of a value
    /// Opens a session whose values leave for `tier`, or, where the case does not care what the
    /// tier does (`any`), for another one.
    std::function<std::shared_ptr<TorchSession>(
        SessionOptions const& options, std::unique_ptr<Tier> tier, bool any
    )>
        open;
};
[[nodiscard]] Suite const& suite();

[[nodiscard]] inline std::int64_t rows() {
    return suite().rows;
}
/// The bytes of `count` values.
[[nodiscard]] inline std::int64_t values(std::int64_t count) {
    return count * rows() * rows() * 4;
}
/// Where leaves are made: the suite's device, but for the plain program, which runs on `plain`.
[[nodiscard]] inline c10::Device& here() {
    static c10::Device device = suite().device;
    return device;
}
/// Whether values of a Rig may be made again.
[[nodiscard]] inline bool& recomputes() {
    static bool may = false;
    return may;
}
[[nodiscard]] inline bool on_cpu() {
    return suite().device.is_cpu();
}

/// Runs `body` with its saved tensors recorded in `session`.
template <typename Body>
auto recorded(std::shared_ptr<TorchSession> const& session, Body&& body) {
    Entered const entered(session);
    return body();
}

/// A session whose cap holds a handful of values, over a tier that tests can break.
struct Rig {
    explicit Rig(
        std::int64_t limit_bytes = values(12),
        std::vector<Fault> faults = {},
        std::string policy = "online",
        std::string log = {},
        std::unique_ptr<Tier> below = nullptr
    ) {
        bool const any = faults.empty() && below == nullptr;
        if (below == nullptr) {
            below = std::make_unique<MemoryTier>(values(1024));
        }
        auto faulty = std::make_unique<FaultyTier>(std::move(below), std::move(faults));
        tier = any && !on_cpu() ? nullptr : faulty.get();
        SessionOptions options;
        options.device_budget_bytes = limit_bytes;
        options.min_value_bytes = 1024;
        options.recompute = recomputes() ? "on" : "off";
        options.policy = std::move(policy);
        options.record_events = std::move(log);
        session = suite().open(options, std::move(faulty), any);
        allocate_from(session, false);
    }

    template <typename Body>
    auto record(Body&& body) {
        return recorded(session, std::forward<Body>(body));
    }

    void own(Tensors const& tensors) { session->own(tensors); }

    /// Nothing lives any more: no value, no room, no byte; once what flies has landed.
    void expect_clean() {
        auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        do {
            session->loop().settle();
        } while (session->loop().ledger() != LedgerView{} &&
                 std::chrono::steady_clock::now() < until);
        EXPECT_EQ(session->loop().ledger(), LedgerView{});
        EXPECT_TRUE(tier == nullptr || tier->counters().used_bytes == 0);
    }

    std::shared_ptr<TorchSession> session;
    FaultyTier* tier = nullptr;  ///< null where the case took any
};

/// The same numbers on every device.
inline Tensor leaf(std::int64_t seed, std::vector<std::int64_t> sizes = {rows(), rows()}) {
    at::manual_seed(static_cast<std::uint64_t>(seed));
    return at::randn(sizes).to(here()).requires_grad_();
}

/// Twelve saved values in a chain: more than the cap holds.
inline Tensor chain(Tensor x) {
    for (int i = 0; i < 12; ++i) {
        x = at::sin(x * 1.01 + 0.1);
    }
    return x;
}

/// Its backward writes what it unpacked, where no version counts it.
struct WritesUnseen : torch::autograd::Function<WritesUnseen> {
    static Tensor forward(torch::autograd::AutogradContext* context, Tensor const& x) {
        context->save_for_backward({x});
        return x.sin();
    }
    static Tensors backward(torch::autograd::AutogradContext* context, Tensors const& gradients) {
        Tensor const x = context->get_saved_variables()[0];
        Tensor const gradient = gradients[0] * x.cos();
        x.variable_data().add_(1);
        return {gradient};
    }
};

/// A program that runs its forward through what it is given.
using Program = std::function<Tensors(std::function<Tensor(std::function<Tensor()>)>)>;

inline void expect_results(
    Tensors const& expected, Program const& program, std::int64_t limit_bytes
) {
    Tensors actual;
    Rig rig(limit_bytes);
    actual = program([&](auto const& body) { return rig.record(body); });
    ASSERT_EQ(expected.size(), actual.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        Tensor const back = actual[i].cpu();
        Tensor const plain = expected[i].cpu();
        EXPECT_TRUE(at::equal(plain, back))
            << "result " << i << ": " << plain.ne(back).sum().item<std::int64_t>() << " of "
            << back.numel() << " elements differ";
    }
    Report const report = rig.session->report();
    EXPECT_TRUE(limit_bytes > values(64) || report.stored_bytes + report.recomputed_bytes > 0)
        << "nothing left";
    actual.clear();
    rig.expect_clean();
}

/// Runs `program` plainly where that is done and recorded on the suite's device, each on fresh
/// leaves, and compares what it returns bit by bit; with values that move, and with values that may
/// be made again.
inline void expect_like_plain(Program const& program, std::int64_t limit_bytes = values(12)) {
    here() = suite().plain;
    Tensors const expected = program([](auto const& body) { return body(); });
    here() = suite().device;
    expect_results(expected, program, limit_bytes);
    SCOPED_TRACE("recomputed");
    recomputes() = true;
    expect_results(expected, program, limit_bytes);
    recomputes() = false;
}

}  // namespace spillway
