// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Programs with several streams, and tiers that take their time: what only a device whose streams
// run late can get wrong. The checker and the poison of the late accelerator watch each case.

#include "late/late.h"
#include "late/late_session.h"
#include "late/test_support.h"

#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace spillway {
namespace {

using late::main_stream;
using late::order;
using late::side_stream;

/// Runs `program` plainly on the CPU, and recorded in `session`; its results must be equal. It has
/// to be right on streams without us, too.
void expect_like_plain_in(std::shared_ptr<TorchSession> const& session, Program const& program) {
    here() = c10::Device(c10::kCPU);
    Tensors const expected = program([](auto const& body) { return body(); });
    here() = suite().device;
    program([](auto const& body) { return body(); });
    late::wait_idle();
    ASSERT_EQ(late::all_reports(), "") << "the program itself is wrong";
    allocate_from(session, false);
    Tensors const actual = program([&](auto const& body) { return recorded(session, body); });
    ASSERT_EQ(expected.size(), actual.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::equal(expected[i], actual[i].cpu())) << "result " << i;
    }
    Report const report = session->report();
    EXPECT_GT(report.stored_bytes + report.freed_bytes, 0) << "nothing left";
}

/// Where values leave for, and whether encoded, is the seed's to say.
std::shared_ptr<TorchSession> open(std::int64_t limit_bytes, std::string recompute) {
    SessionOptions options = small_options(limit_bytes);
    options.recompute = std::move(recompute);
    return suite().open(options, std::make_unique<MemoryTier>(values(1024)), true);
}

/// With values that move, and with values that may be made again.
void expect_like_plain_within(std::int64_t limit_bytes, Program const& program) {
    for (char const* const recompute : {"off", "on"}) {
        SCOPED_TRACE(recompute);
        expect_like_plain_in(open(limit_bytes, recompute), program);
    }
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

/// What every program on several streams does with a tensor that another stream than its own uses.
Tensor const& used_on(c10::Stream const& stream, Tensor const& tensor) {
    if (!tensor.is_cpu()) {
        tensor.record_stream(stream);
    }
    return tensor;
}

TEST(Streams, a_value_made_on_another_stream_is_stored_after_it) {
    c10::Stream const side = side_stream();
    expect_like_plain_within(values(12), [&](auto const& record) {
        Tensor x = leaf(70);
        Tensor y = record([&] {
            Tensor a;
            on_side(side, [&] { a = chain(x); });
            return chain(used_on(main_stream(), a)).sum();
        });
        y.backward();
        return Tensors{y.detach(), x.grad()};
    });
}

/// Blocks of the side stream's, for the main one to write.
Tensors blocks_of(c10::Stream const& side, Tensor const& x, int count) {
    Tensors blocks;
    on_side(side, [&] {
        for (int i = 0; i < count; ++i) {
            blocks.push_back(at::empty_like(x.detach()));
        }
    });
    return blocks;
}

TEST(Streams, a_block_of_another_stream_is_stored_and_freed_after_its_user) {
    // No block is recorded: the graph holds them all until that stream has waited for this one.
    c10::Stream const side = side_stream();
    expect_like_plain_within(values(14), [&](auto const& record) {
        Tensor x = leaf(71);
        Tensor y = record([&] {
            Tensor sum = at::zeros({}, here());
            for (Tensor& block : blocks_of(side, x, 6)) {
                sum = sum + at::sin(block.copy_(x).add_(1)).sum();
                block.reset();
            }
            return sum + chain(chain(x)).sum();
        });
        y.backward({}, true);
        if (!here().is_cpu()) {
            order(main_stream(), side);
        }
        Tensor const value = y.detach();
        y.reset();
        return Tensors{value, x.grad()};
    });
}

TEST(Streams, a_value_that_two_streams_saved_comes_back_for_both) {
    c10::Stream const side = side_stream();
    expect_like_plain_within(values(12), [&](auto const& record) {
        Tensor x = leaf(72);
        Tensor y = record([&] {
            Tensor sum = at::zeros({}, here());
            used_on(side, sum);
            Tensor here_too = at::zeros({}, here());
            Tensor a = x;
            for (int i = 0; i < 6; ++i) {
                a = at::sin(a * 1.01 + 0.1);
                here_too = here_too + (a * a).sum();
                used_on(side, a);
                on_side(side, [&] { sum = sum + (a * a).sum() + at::exp(a).sum(); });
            }
            return used_on(main_stream(), sum) + here_too + chain(a).sum();
        });
        y.backward();
        return Tensors{y.detach(), x.grad()};
    });
}

TEST(Streams, a_value_that_no_gradient_orders_is_held_for_both_its_streams) {
    c10::Stream const side = side_stream();
    expect_like_plain_within(values(16), [&](auto const& record) {
        Tensor x = leaf(78);
        Tensor z = leaf(79);
        Tensor y = record([&] {
            Tensor other;
            on_side(side, [&] { other = z * 1; });
            Tensor const here_too = x * 1;
            Tensor sum = at::zeros({}, here());
            Tensor there = at::zeros({}, here());
            used_on(side, there);
            for (int i = 0; i < 8; ++i) {
                Tensor const constant = at::sin(x.detach() + i);  // needs no gradient
                sum = sum + (here_too * constant).sum();
                used_on(side, constant);
                on_side(side, [&] { there = there + (other * constant).sum(); });
            }
            return sum + used_on(main_stream(), there) + chain(x).sum();
        });
        y.backward();
        return Tensors{y.detach(), x.grad(), z.grad()};
    });
}

TEST(Streams, a_value_that_comes_back_for_one_stream_is_waited_for_by_the_others) {
    c10::Stream const side = side_stream();
    expect_like_plain_within(values(16), [&](auto const& record) {
        Tensor x = leaf(85);
        Tensor z = leaf(86);
        Tensor y = record([&] {
            Tensor other;
            on_side(side, [&] { other = z * 1; });
            Tensor const here_too = x * 1;
            Tensor sum = at::zeros({}, here());
            Tensor there = at::zeros({}, here());
            used_on(side, there);
            for (int i = 0; i < 8; ++i) {  // saved here, there, and here again, which asks first
                Tensor const constant = at::sin(x.detach() + i);
                sum = sum + (here_too * constant).sum();
                used_on(side, constant);
                on_side(side, [&] { there = there + (other * constant).sum(); });
                sum = sum + (here_too * constant).sum();
            }
            return sum + used_on(main_stream(), there) + chain(x).sum();
        });
        y.backward();
        return Tensors{y.detach(), x.grad(), z.grad()};
    });
}

/// In a session in which values are made again, and which has room for so many.
void expect_made_again_like_plain(std::int64_t limit_bytes, Program const& program) {
    SessionOptions options = small_options(limit_bytes);
    options.recompute = "on";
    auto const session = open_on_host(options, values(1));
    session->saved_tensors().log().keep();
    expect_like_plain_in(session, program);
    EXPECT_GT(session->report().recomputed_bytes, 0)
        << session->saved_tensors().log().explain("", session->loop().histories());
}

/// Takes the place of so many values, for a moment.
void large(std::int64_t count) {
    at::full({count, rows(), rows()}, 1.0, here());
}

TEST(Streams, a_value_that_one_stream_makes_again_is_waited_for_by_the_others) {
    c10::Stream const side = side_stream();
    expect_made_again_like_plain(values(20), [&](auto const& record) {
        Tensor x = leaf(90);
        Tensor z = leaf(91);
        Tensor y = record([&] {
            Tensor other;
            on_side(side, [&] { other = z * 1; });
            Tensor base = x * 1;
            Tensor sum = (base * base).sum();  // saves it
            Tensor there = at::zeros({}, here());
            used_on(side, there);
            for (int i = 0; i < 8; ++i) {
                Tensor const constant = at::sin(base.detach() + i);  // needs no gradient
                sum = sum + (base * constant).sum();
                used_on(side, constant);
                on_side(side, [&] { there = there + (other * constant).sum(); });
                sum = sum + (base * constant).sum();  // asks for it first
            }
            base.reset();
            large(12);
            return sum + used_on(main_stream(), there);
        });
        y.backward();
        return Tensors{y.detach(), x.grad(), z.grad()};
    });
}

/// Takes so many values' room on the side stream, with no order between it and the main one.
Tensor beside(c10::Stream const& side, Tensor const& other, int count) {
    std::optional<c10::StreamGuard> guard;
    if (!here().is_cpu()) {
        guard.emplace(side);
    }
    return other.detach().repeat({count, 1});
}

TEST(Streams, a_value_that_goes_while_another_stream_is_current_is_whole_when_it_is_summed) {
    c10::Stream const side = side_stream();
    expect_made_again_like_plain(values(20), [&](auto const& record) {
        Tensor x = leaf(94);
        Tensor z = leaf(95);
        if (!here().is_cpu()) {
            order(main_stream(), side);
        }
        Tensor unused;
        Tensor y = record([&] {
            Tensor base = x * 1;
            Tensor sum = (base * base).sum();  // saves it
            for (int i = 0; i < 8; ++i) {
                Tensor const made = at::sin(base.detach() + i);
                sum = sum + (base * made).sum();
            }
            base.reset();
            unused = beside(side, z, 12);
            return sum;
        });
        y.backward();
        Tensor const value = y.detach();
        y.reset();
        if (!here().is_cpu()) {
            order(side, main_stream());
        }
        unused.reset();
        return Tensors{value, x.grad()};
    });
}

TEST(Streams, steps_without_a_wait_between_them_find_host_room) {
    // One step's stores fill the host tier; the next begins before the device has read them back.
    auto session = open_on_host(small_options(values(12)), values(26));
    allocate_from(session, false);
    Tensor x = leaf(87);
    for (int step = 0; step < 4; ++step) {
        recorded(session, [&] { return chain(chain(x)).sum(); }).backward();
    }
    EXPECT_TRUE(at::equal(plain_gradient(87, 4), x.grad().cpu()));
}

/// `read` reads what the sine saved, whose block is another stream's. After some of these numbers
/// of other values its copy out has begun by then, and it has not left.
void read_before_it_leaves(std::function<Tensor(Tensor const& sine)> const& read) {
    c10::Stream const side = side_stream();
    auto const program = [&](auto const& record, int others) {
        Tensor x = leaf(83);
        Tensor y = record([&] {
            Tensor block = blocks_of(side, x, 1)[0];
            Tensor const first = at::sin(block.copy_(x).add_(1));
            block.reset();
            Tensor after = first;
            for (int i = 0; i < others; ++i) {
                after = at::sin(after * 1.01);
            }
            Tensor const sum = after.sum() + read(first);
            return sum + chain(chain(x)).sum();
        });
        y.backward({}, true);
        if (!here().is_cpu()) {
            order(main_stream(), side);
        }
        Tensor const value = y.detach();
        y.reset();
        return Tensors{value, x.grad()};
    };
    for (int others = 10; others < 30; others += 2) {
        expect_like_plain_within(values(32), [&](auto const& record) {
            return program(record, others);
        });
    }
}

TEST(Streams, a_saved_value_that_is_looked_at_is_freed_after_the_look) {
    read_before_it_leaves([](Tensor const& sine) {
        auto* const node =
            dynamic_cast<torch::autograd::generated::SinBackward0*>(sine.grad_fn().get());
        return (node->self_.unpack() * 3).detach().sum();
    });
}

TEST(Streams, a_saved_value_that_a_backward_read_is_freed_after_it) {
    read_before_it_leaves([](Tensor const& sine) {
        sine.sum().backward({}, true);
        return at::zeros({}, here());
    });
}

/// Values that came back are read on another stream, and freed while the device has events or not.
void read_on_another_stream(bool has_events) {
    c10::Stream const side = side_stream();
    expect_like_plain_within(values(12), [&](auto const& record) {
        Tensor x = leaf(88);
        Tensor there = at::zeros({}, here());
        used_on(side, there);
        for (int i = 0; i < 4; ++i) {
            Tensor first;
            Tensor y = record([&] {
                first = at::sin(x * 1);
                return chain(first).sum();
            });
            auto* const node =
                dynamic_cast<torch::autograd::generated::SinBackward0*>(first.grad_fn().get());
            first.reset();
            Tensor back = node->self_.unpack();  // it had left
            if (!here().is_cpu()) {
                order(main_stream(), side);
                c10::StreamGuard const guard(side);
                there += (used_on(side, back) * 3).sum();
            } else {
                there += (back * 3).sum();
            }
            y.backward();  // nothing orders this stream after that one
            std::optional<late::NoEvents> none;
            if (!has_events) {
                none.emplace();
            }
            back.reset();
        }
        if (!here().is_cpu()) {
            order(side, main_stream());
        }
        return Tensors{there, x.grad()};
    });
}

TEST(Streams, a_value_that_came_back_may_be_recorded_for_another_stream) {
    read_on_another_stream(true);
    read_on_another_stream(false);
}

TEST(Streams, a_value_that_has_just_left_is_wanted_back) {
    c10::Stream const side = side_stream();
    expect_like_plain_within(values(18), [&](auto const& record) {
        Tensor x = leaf(84);
        Tensor y = record([&] {
            Tensor sum = at::zeros({}, here());
            for (Tensor& block : blocks_of(side, x, 12)) {
                sum = sum + at::sin(block.copy_(x).add_(1)).sum();
                block.reset();
            }
            return sum;
        });
        at::full({10, rows(), rows()}, 1.0, here());  // takes the place of nearly all
        y.backward({}, true);
        if (!here().is_cpu()) {
            order(main_stream(), side);
        }
        Tensor const value = y.detach();
        y.reset();
        return Tensors{value, x.grad()};
    });
}

TEST(Streams, backward_on_other_streams_than_the_loads_were_asked_on) {
    c10::Stream const side = side_stream();
    expect_like_plain_within(values(12), [&](auto const& record) {
        Tensor x = leaf(73);
        Tensor y = record([&] {
            Tensor a = chain(x);
            Tensor b;
            used_on(side, a);
            on_side(side, [&] { b = chain(a); });
            Tensor const c = chain(used_on(main_stream(), b));
            used_on(side, c);
            on_side(side, [&] { b = chain(c); });
            return used_on(main_stream(), b).sum();
        });
        y.backward();
        return Tensors{y.detach(), x.grad()};
    });
}

/// The identity, whose backward takes as much memory as eight values.
struct Hungry : torch::autograd::Function<Hungry> {
    static Tensor forward(torch::autograd::AutogradContext*, Tensor const& x) { return x * 1; }
    static torch::autograd::variable_list backward(
        torch::autograd::AutogradContext*, torch::autograd::variable_list gradient
    ) {
        at::full({8, rows(), rows()}, 1, gradient[0].options());
        return {gradient[0]};
    }
};

TEST(Streams, a_large_allocation_in_backward_takes_read_ahead_back) {
    expect_like_plain_within(values(16), [&](auto const& record) {
        Tensor x = leaf(74);
        Tensor y = record([&] {
            Tensor const a = Hungry::apply(chain(x));
            return chain(chain(a)).sum();
        });
        y.backward();
        return Tensors{x.grad()};
    });
}

TEST(Streams, a_tier_behind_staging_may_take_its_time) {
    for (std::int64_t const delay_ms : {0, 1}) {
        auto slow = std::make_unique<FaultyTier>(std::make_unique<MemoryTier>(values(1024)));
        slow->set_delay_ms(delay_ms);
        expect_like_plain_in(
            open_staged(small_options(), std::move(slow)),
            [&](auto const& record) {
                Tensor x = leaf(75);
                Tensor y = record([&] { return chain(chain(x)).sum(); });
                y.backward();
                return Tensors{y.detach(), x.grad()};
            }
        );
    }
}

TEST(Streams, a_session_is_closed_while_copies_fly) {
    for (bool const staged : {false, true}) {
        auto session =
            staged ? open_staged(small_options(), std::make_unique<MemoryTier>(values(1024)))
                   : open_on_host(small_options());
        allocate_from(session, false);
        Tensor x = leaf(77);
        Tensor y = recorded(session, [&] { return chain(chain(x)).sum(); });
        session.reset();
        y.reset();
    }
}

}  // namespace
}  // namespace spillway
