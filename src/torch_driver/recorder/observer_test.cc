// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/observer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace spillway {
namespace {

struct Seen {
    bool one_node = false;
    std::string name;
    std::function<void()> inside{};
};

Seen& seen() {
    static Seen now;
    return now;
}

/// Makes `nodes` of them, and looks.
torch::Tensor multiply(torch::Tensor const& x, std::int64_t nodes) {
    torch::Tensor y = x;
    for (std::int64_t i = 0; i < nodes; ++i) {
        y = y * 2;
    }
    seen().one_node = operator_made_one_node();
    seen().name = current_operator();
    if (seen().inside) {
        seen().inside();
    }
    return y;
}

TORCH_LIBRARY(spillway_observer_test, library) {
    library.def("multiply(Tensor x, int nodes) -> Tensor", &multiply);
}

void run_operator(std::int64_t nodes) {
    static auto const found = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("spillway_observer_test::multiply", "")
                                  .typed<torch::Tensor(torch::Tensor const&, std::int64_t)>();
    (void)found.call(torch::ones({2}, torch::requires_grad()), nodes);
}

TEST(ObserverTest, the_node_is_known_where_the_operator_made_one_alone) {
    OperatorObserver const observer(ObserverLevel::names);
    run_operator(0);
    EXPECT_FALSE(seen().one_node);
    run_operator(1);
    EXPECT_TRUE(seen().one_node);
    run_operator(2);
    EXPECT_FALSE(seen().one_node);
}

TEST(ObserverTest, no_node_is_known_where_none_is_recorded_or_no_operator_runs) {
    {
        OperatorObserver const observer(ObserverLevel::names);
        c10::NoGradGuard const unrecorded;
        run_operator(1);
        EXPECT_FALSE(seen().one_node);
    }
    run_operator(1);
    EXPECT_FALSE(seen().one_node) << "nothing is watched";
    OperatorObserver const observer(ObserverLevel::names);
    (void)multiply(torch::ones({2}, torch::requires_grad()), 1);
    EXPECT_FALSE(seen().one_node) << "it runs in no operator";
}

TEST(ObserverTest, two_levels_on_a_thread_see_an_operator_once) {
    auto names = std::make_unique<OperatorObserver>(ObserverLevel::names);
    auto arguments = std::make_unique<OperatorObserver>(ObserverLevel::arguments);
    run_operator(1);
    EXPECT_EQ(seen().name, "spillway_observer_test::multiply");
    EXPECT_EQ(current_operator(), "an allocation") << "it has ended, for both";
    names.reset();
    run_operator(1);
    EXPECT_EQ(seen().name, "spillway_observer_test::multiply") << "arguments have names, too";
    arguments.reset();
    run_operator(1);
    EXPECT_EQ(seen().name, "an allocation");
}

TEST(ObserverTest, an_observer_may_end_inside_an_operator) {
    auto observer = std::make_unique<OperatorObserver>(ObserverLevel::names);
    seen().inside = [&] { observer.reset(); };
    run_operator(1);
    seen().inside = nullptr;
    EXPECT_EQ(seen().name, "spillway_observer_test::multiply");
    EXPECT_EQ(current_operator(), "an allocation");
    run_operator(1);
    EXPECT_EQ(seen().name, "an allocation");
}

}  // namespace
}  // namespace spillway
