// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A session inside another: the inner one takes what is saved, and both budgets hold.

#include "torch_driver/suite/suite.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace spillway {
namespace {

Tensor value() {
    return at::empty({rows(), rows()}, here());
}

std::int64_t used(Rig const& rig) {
    return rig.session->device()->used_bytes();
}

TEST(Nesting, the_inner_session_takes_the_saves_and_both_budgets_hold) {
    here() = suite().plain;
    auto const program = [](auto const& outside, auto const& inside) {
        Tensor x = leaf(1);
        Tensor const first = outside([&] { return chain(x); });
        Tensor const second = inside([&] { return chain(first); });
        Tensor const loss = outside([&] { return chain(second).sum(); });
        loss.backward();
        return x.grad();
    };
    auto const plainly = [](auto const& body) { return body(); };
    Tensor const expected = program(plainly, plainly);
    here() = suite().device;
    for (auto const& [outer_values, inner_values] : {std::pair{14, 40}, {40, 14}, {16, 14}}) {
        Rig outer(values(outer_values));
        std::optional<Rig> inner(values(inner_values));
        auto const outside = [&](auto const& body) { return outer.record(body); };
        std::int64_t saved_outside = 0;
        auto const inside = [&](auto const& body) {
            saved_outside = outer.session->report().saved_tensors;
            auto result = inner->record(body);
            EXPECT_EQ(outer.session->report().saved_tensors, saved_outside);
            EXPECT_GT(inner->session->report().saved_tensors, 0);
            return result;
        };
        Tensor const grad = program(outside, inside);
        EXPECT_TRUE(at::equal(expected.cpu(), grad.cpu())) << outer_values << ", " << inner_values;
        EXPECT_LE(outer.session->report().device_peak_bytes, values(outer_values));
        if (on_cpu(
            )) {  // elsewhere a session counts what all allocate, also when it is not entered
            EXPECT_LE(inner->session->report().device_peak_bytes, values(inner_values));
        }
        EXPECT_GT(outer.session->report().stored_bytes + inner->session->report().stored_bytes, 0);
    }
}

TEST(Nesting, what_was_lent_is_back_when_the_inner_session_is_gone) {
    Rig outer(values(12));
    std::int64_t const before = used(outer);
    {
        Rig inner(values(8));
        Tensor const a = value();
        Tensor const b = value();
        EXPECT_GE(used(outer), before + values(2)) << "the inner one's blocks count outside, too";
    }
    EXPECT_EQ(used(outer), before);
    std::vector<Tensor> all;
    for (int i = 0; i < 8; ++i) {
        all.push_back(value());  // the outer session goes on
    }
    EXPECT_EQ(used(outer), before + values(8));
}

TEST(Nesting, what_the_inner_session_has_not_in_use_the_outer_one_gets) {
    Rig outer(values(12));
    Rig inner(values(12));
    Tensors many;
    for (int i = 0; i < 9; ++i) {
        many.push_back(value());
    }
    many.clear();
    allocate_from(outer.session, false);  // entered again: the other way round
    for (int i = 0; i < 9; ++i) {
        many.push_back(value());
    }
    EXPECT_LE(used(outer), values(12));
}

TEST(Nesting, a_refusal_says_that_the_session_around_has_no_more) {
    Rig outer(values(4));
    Rig inner(values(64));
    Tensors many;
    try {
        for (int i = 0; i < 8; ++i) {
            many.push_back(value());
        }
        FAIL() << "the outer budget did not hold";
    } catch (c10::OutOfMemoryError const& error) {
        std::string const words = error.what_without_backtrace();
        EXPECT_NE(words.find("a session around this one"), std::string::npos) << words;
    }
    EXPECT_LE(used(outer), values(4));
}

TEST(Nesting, a_refusal_names_the_budget_that_is_short_and_no_other) {
    Rig outermost(values(4));
    Rig outer(values(32));
    Rig inner(values(64));
    Tensors many;
    try {
        for (int i = 0; i < 8; ++i) {
            many.push_back(value());
        }
        FAIL() << "the outermost budget did not hold";
    } catch (c10::OutOfMemoryError const& error) {
        std::string const words = error.what_without_backtrace();
        EXPECT_NE(words.find(" of its " + format_size(values(4))), std::string::npos) << words;
    }
    EXPECT_GE(many.size(), 3U);  // on the CPU each of the outer two keeps a page
}

TEST(Nesting, the_outer_sessions_values_leave_for_the_inner_one) {
    Rig outer(values(14));
    Tensor x = leaf(2);
    Tensor const loss = outer.record([&] { return chain(x).sum(); });
    {
        Rig inner(values(10));
        Tensors many;
        for (int i = 0; i < 8; ++i) {
            many.push_back(value());
        }
        EXPECT_LE(outer.session->report().device_peak_bytes, values(14));
    }
    loss.backward();
    EXPECT_TRUE(x.grad().defined());
}

TEST(Nesting, many_inside_one_that_is_full_are_refused_soon) {
    Rig outer(values(6));
    std::vector<std::unique_ptr<Rig>> inner;
    Tensors many;
    for (int i = 0; i < 12; ++i) {
        allocate_from(outer.session, false);
        inner.push_back(std::make_unique<Rig>(values(6)));
        try {
            many.push_back(value());
        } catch (c10::OutOfMemoryError const&) {
            EXPECT_GE(i, 4);
        }
    }
    EXPECT_LE(used(outer), values(6));
}

/// Whether it was not refused.
bool try_to(std::function<void()> const& allocate) {
    try {
        allocate();
        return true;
    } catch (c10::OutOfMemoryError const&) {
        return false;
    }
}

TEST(Nesting, two_threads_ask_both_ways_at_once) {
    here() = suite().plain;
    Tensor x = leaf(3);
    chain(x).sum().backward();
    Tensor const expected = x.grad();
    here() = suite().device;
    Rig outer(values(18));
    Rig inner(values(14));
    Tensor y = leaf(3);
    Tensor const loss = inner.record([&] { return chain(y).sum(); });
    std::atomic<bool> is_over = false;
    std::thread backward([&] {                           // asks the outer one for room to come back
        for (int i = 0; i < (on_cpu() ? 20 : 1); ++i) {  // elsewhere seeds repeat it
            y.mutable_grad() = Tensor();
            (void)try_to([&] { loss.backward({}, true); });
        }
        is_over = true;
    });
    allocate_from(outer.session, false);
    while (!is_over) {  // asks the inner one to let go
        Tensors many;
        while (many.size() < 16 && try_to([&] { many.push_back(value()); })) {
        }
    }
    backward.join();
    y.mutable_grad() = Tensor();
    loss.backward();
    EXPECT_TRUE(at::equal(expected.cpu(), y.grad().cpu()));
}

TEST(Nesting, an_outer_session_that_ends_first_bounds_the_inner_one_no_more) {
    std::optional<Rig> outer(values(4));
    Rig inner(values(12));
    Tensor const first = value();
    outer.reset();
    Tensors many;
    for (int i = 0; i < 8; ++i) {
        many.push_back(value());
    }
    EXPECT_GE(used(inner), values(9));
}

}  // namespace
}  // namespace spillway
