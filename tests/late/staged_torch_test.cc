// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Sessions whose values leave through staging, with and without the mover's own thread: it asks
// whether copies have passed, calls the tier and enqueues copies in beside the threads that train.

#include "late/late_session.h"
#include "late/test_support.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

namespace spillway {
namespace {

constexpr bool kStagedOwnThread = true;

std::unique_ptr<FaultyTier> staged_memory(std::vector<Fault> faults = {}) {
    return std::make_unique<FaultyTier>(
        std::make_unique<MemoryTier>(values(1024)), std::move(faults)
    );
}

TEST(Staged, steps_with_a_thread_of_the_movers_are_the_cpus) {
    std::unique_ptr<FaultyTier> tier = staged_memory();
    FaultyTier& slow = *tier;
    auto const session = open_staged(small_options(), std::move(tier), kStagedOwnThread);
    for (std::int64_t const delay_ms : {0, 1}) {
        slow.set_delay_ms(delay_ms);
        std::int64_t const stored = session->report().nvme_stored_bytes;
        std::int64_t const loaded = session->report().loaded_bytes;
        expect_steps_like_plain(session, 91, 2);
        EXPECT_GT(session->report().nvme_stored_bytes - stored, values(2 * 8)) << delay_ms;
        EXPECT_GT(session->report().loaded_bytes - loaded, values(2 * 8)) << delay_ms;
    }
    EXPECT_LE(session->report().device_peak_bytes, values(12));
}

/// The identity, whose backward fails.
struct Failing : torch::autograd::Function<Failing> {
    static Tensor forward(torch::autograd::AutogradContext*, Tensor const& x) { return x * 1; }
    static torch::autograd::variable_list
    backward(torch::autograd::AutogradContext*, torch::autograd::variable_list const&) {
        TORCH_CHECK(false, "in mid backward");
    }
};

/// Closes a session whose last stores are at the tier; those of them are returned.
std::int64_t close_while_copies_fly(bool in_backward) {
    std::unique_ptr<FaultyTier> tier = staged_memory();
    FaultyTier& slow = *tier;
    auto session = open_staged(small_options(), std::move(tier), kStagedOwnThread);
    allocate_from(session, false);
    Tensor x = leaf(77);
    Tensor y = recorded(session, [&] {
        Tensor const a = chain(Failing::apply(chain(x)));
        slow.set_delay_ms(8);
        return at::sin(at::sin(a) + 1).sum();
    });
    Report const report = session->report();
    if (in_backward) {
        EXPECT_THROW(y.backward(), c10::Error);
    }
    session.reset();
    y.reset();
    return report.copy_out_bytes - report.nvme_stored_bytes;
}

TEST(Staged, a_session_with_a_thread_of_the_movers_is_closed_while_copies_fly) {
    // Time decides whether they still do; now and then all have landed.
    EXPECT_GE(close_while_copies_fly(false), 0);
    EXPECT_GE(close_while_copies_fly(true), 0);
    expect_steps_like_plain(open_staged(small_options(), staged_memory(), kStagedOwnThread), 77, 1);
}

TEST(Staged, a_value_too_long_for_staging_leaves_for_the_host) {
    SessionOptions const options = small_options(values(40));
    SessionDevice device = open_session_device(options);
    auto host = HostTier::open(device.host_memory(values(64)).value());
    MoverOptions mover = mover_options(false);
    mover.staging = device.host_memory(values(2)).value();
    auto const session = open_session_on(
        options, std::move(device), std::move(host), staged_memory(), std::move(mover)
    );
    allocate_from(session, false);
    auto const program = [](auto const& record) {
        Tensor x = leaf(93, {4 * rows(), rows()});
        Tensor y = record([&] { return chain(x).sum(); });
        y.backward();
        return x.grad();
    };
    Tensor const got = program([&](auto const& body) { return recorded(session, body); }).cpu();
    Report const report = session->report();
    EXPECT_GT(report.host_peak_bytes, values(4 * 4));
    EXPECT_EQ(report.nvme_peak_bytes, 0);
    here() = c10::Device(c10::kCPU);
    EXPECT_TRUE(at::equal(program([](auto const& body) { return body(); }), got));
    here() = suite().device;
}

TEST(Staged, a_store_that_fails_loses_nothing) {
    for (std::int64_t const first : {0, 3}) {
        SCOPED_TRACE("failing store " + std::to_string(first));
        auto const session = open_staged(
            small_options(values(28)), staged_memory({{.kind = Fault::Kind::fail, .first = first}})
        );
        expect_steps_like_plain(session, 76, 2);
    }
}

}  // namespace
}  // namespace spillway
