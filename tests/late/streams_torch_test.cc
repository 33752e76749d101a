// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Programs with several streams, and tiers that take their time: what only a device whose streams run
// late can get wrong. The checker and the poison of the late accelerator watch each case.

#include "late/late.h"
#include "late/late_session.h"
#include "late/test_support.h"

#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace spillway {
namespace {

using late::main_stream;
using late::order;
using late::side_stream;

SessionOptions options(std::int64_t limit_bytes = values(12)) {
    SessionOptions asked;
    asked.device_budget_bytes = limit_bytes;
    asked.min_value_bytes = 1024;
    return asked;
}

/// Runs `program` plainly on the CPU, and recorded in `session`; its results must be equal.
void expect_like_plain_in(std::shared_ptr<TorchSession> const& session, Program const& program) {
    here() = c10::Device(c10::kCPU);
    Tensors const expected = program([](auto const& body) { return body(); });
    here() = suite().device;
    allocate_from(session, false);
    Tensors const actual = program([&](auto const& body) {
        Recorder const outer =
            std::exchange(thread_recorder(), Recorder{session, python_hook_depth()});
        Tensor result = body();
        thread_recorder() = outer;
        return result;
    });
    ASSERT_EQ(expected.size(), actual.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::equal(expected[i], actual[i].cpu())) << "result " << i;
    }
    EXPECT_GT(session->report().stored_bytes, 0) << "moved nothing";
}

/// On a device: `body` on another stream, with waits before and after. On the CPU: `body`.
void on_side(c10::Stream const& side, std::function<void()> const& body) {
    if (here().is_cpu()) {
        body();
        return;
    }
    order(main_stream(), side);
    {
        c10::StreamGuard const guard(side);
        body();
    }
    order(side, main_stream());
}

TEST(Streams, a_value_made_on_another_stream_is_stored_after_it) {
    c10::Stream const side = side_stream();
    expect_like_plain_in(open_on_host(options()), [&](auto const& record) {
        Tensor x = leaf(70);
        Tensor y = record([&] {
            Tensor a;
            on_side(side, [&] { a = chain(x); });
            return chain(a).sum();
        });
        y.backward();
        return Tensors{y.detach(), x.grad()};
    });
}

/// A value in a block of the side stream's, written and saved on the main one.
Tensor made_here_in_a_block_of(c10::Stream const& side, Tensor const& x) {
    Tensor block;
    on_side(side, [&] { block = at::empty_like(x.detach()); });
    return at::sin(block.copy_(x) * 1) + at::sin(block);
}

TEST(Streams, a_block_of_another_stream_is_stored_and_freed_after_its_user) {
    c10::Stream const side = side_stream();
    expect_like_plain_in(open_on_host(options()), [&](auto const& record) {
        Tensor x = leaf(71);
        Tensor y = record([&] {
            Tensor sum = at::zeros({}, here());
            for (int i = 0; i < 8; ++i) {
                sum = sum + made_here_in_a_block_of(side, x + i).sum();
                if (!here().is_cpu()) {  // takes what comes free of that stream, and writes
                    c10::StreamGuard const guard(side);
                    at::full({rows(), rows()}, i, here());
                }
            }
            return sum;
        });
        y.backward();
        return Tensors{y.detach(), x.grad()};
    });
}

TEST(Streams, a_value_that_two_streams_saved_comes_back_for_both) {
    c10::Stream const side = side_stream();
    expect_like_plain_in(open_on_host(options()), [&](auto const& record) {
        Tensor x = leaf(72);
        Tensor y = record([&] {
            Tensor sum = at::zeros({}, here());
            Tensor a = x;
            for (int i = 0; i < 6; ++i) {
                a = at::sin(a * 1.01 + 0.1);
                on_side(side, [&] { sum = sum + (a * a).sum() + at::exp(a).sum(); });
            }
            return sum + chain(a).sum();
        });
        y.backward();
        return Tensors{y.detach(), x.grad()};
    });
}

TEST(Streams, backward_on_other_streams_than_the_loads_were_asked_on) {
    c10::Stream const side = side_stream();
    expect_like_plain_in(open_on_host(options()), [&](auto const& record) {
        Tensor x = leaf(73);
        Tensor y = record([&] {
            Tensor a = chain(x);
            Tensor b;
            on_side(side, [&] { b = chain(a); });
            Tensor c = chain(b);
            on_side(side, [&] { b = chain(c); });
            return b.sum();
        });
        y.backward();
        return Tensors{y.detach(), x.grad()};
    });
}

TEST(Streams, a_large_allocation_in_backward_takes_read_ahead_back) {
    expect_like_plain_in(open_on_host(options(values(16))), [&](auto const& record) {
        Tensor x = leaf(74);
        Tensor y = record([&] { return chain(chain(x)).sum(); });
        x.register_hook([](Tensor const& gradient) { return gradient * 2; });
        Tensor z = record([&] {
            Tensor const wide = at::cat({x, x, x, x}, 1);  // its gradient is four values long
            return at::sin(wide).sum() + chain(x).sum();
        });
        y.backward();
        z.backward();
        return Tensors{x.grad()};
    });
}

TEST(Streams, a_tier_behind_staging_may_take_its_time) {
    for (std::int64_t const delay_ms : {0, 1}) {
        auto slow = std::make_unique<FaultyTier>(std::make_unique<MemoryTier>(values(1024)));
        slow->set_delay_ms(delay_ms);
        expect_like_plain_in(open_staged(options(), std::move(slow)), [&](auto const& record) {
            Tensor x = leaf(75);
            Tensor y = record([&] { return chain(chain(x)).sum(); });
            y.backward();
            return Tensors{y.detach(), x.grad()};
        });
    }
}

TEST(Streams, a_store_that_fails_behind_staging_loses_nothing) {
    for (std::int64_t const first : {0, 3, 7}) {
        auto faulty = std::make_unique<FaultyTier>(
            std::make_unique<MemoryTier>(values(1024)),
            std::vector<Fault>{{.kind = Fault::Kind::fail, .first = first}}
        );
        auto session = open_staged(options(values(28)), std::move(faulty));
        allocate_from(session, false);
        Tensor x = leaf(76);
        for (int step = 0; step < 3; ++step) {
            session->loop().begin_step(step);
            Recorder const outer =
                std::exchange(thread_recorder(), Recorder{session, python_hook_depth()});
            Tensor y = chain(chain(x)).sum();
            thread_recorder() = outer;
            y.backward();
        }
        Tensor const got = x.grad().cpu();
        here() = c10::Device(c10::kCPU);
        Tensor plain = leaf(76);
        for (int step = 0; step < 3; ++step) {
            chain(chain(plain)).sum().backward();
        }
        here() = suite().device;
        EXPECT_TRUE(at::equal(plain.grad(), got)) << "failing store " << first;
    }
}

TEST(Streams, a_session_is_closed_while_copies_fly) {
    for (bool const staged : {false, true}) {
        auto session =
            staged ? open_staged(options(), std::make_unique<MemoryTier>(values(1024)))
                   : open_on_host(options());
        allocate_from(session, false);
        Tensor x = leaf(77);
        Recorder const outer =
            std::exchange(thread_recorder(), Recorder{session, python_hook_depth()});
        Tensor y = chain(chain(x)).sum();
        thread_recorder() = outer;
        session.reset();
        y.reset();
    }
}

}  // namespace
}  // namespace spillway
