// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The order that we reckon, against the one in which torch's engine ran the nodes.
#include "torch_driver/autograd/backward_order.h"

#include "torch_driver/autograd/engine.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace spillway {
namespace {

using Order = std::vector<std::uint64_t>;

/// A graph of random shape, which notes the nodes that run and what was reckoned when the first
/// did.
struct Graph {
    explicit Graph(unsigned seed) : dice(seed) {
        for (int i = 0; i < 4; ++i) {
            tensors.push_back(at::ones({2}).requires_grad_(true));
        }
        for (int i = 0; i < 60; ++i) {
            add_node();
        }
    }

    at::Tensor const& any() { return tensors[dice() % tensors.size()]; }

    void add_node() {
        at::Tensor const result = dice() % 2 == 0 ? at::mul(any(), any()) : at::add(any(), any());
        std::uint64_t const number = result.grad_fn()->sequence_nr();
        result.register_hook([this, number](at::Tensor const&) {
            if (ran.empty()) {
                rank = rank_of_nodes(*backward_here());
            }
            ran.push_back(number);
        });
        tensors.push_back(result);
    }

    /// The numbers of the nodes of ours, in the order that was reckoned.
    [[nodiscard]] Order reckoned() const {
        std::map<std::size_t, std::uint64_t> by_rank;
        for (auto const& [number, at] : rank) {
            bool const is_a_leafs = number == UINT64_MAX;
            if (!is_a_leafs) {
                by_rank[at] = number;
            }
        }
        Order order;
        for (auto const& [at, number] : by_rank) {
            order.push_back(number);
        }
        return order;
    }

    std::mt19937 dice;
    std::vector<at::Tensor> tensors;
    Order ran;
    std::unordered_map<std::uint64_t, std::size_t> rank;
};

TEST(BackwardOrder, is_the_one_in_which_the_engine_runs) {
    install_engine();
    for (unsigned seed = 0; seed < 50; ++seed) {
        Graph graph(seed);
        torch::autograd::backward(
            {graph.tensors.back(), graph.any() * 2}, {at::ones({2}), at::ones({2})}
        );
        Order reckoned = graph.reckoned();
        std::erase_if(reckoned, [&](std::uint64_t number) {  // the product above has no hook
            return std::count(graph.ran.begin(), graph.ran.end(), number) == 0;
        });
        EXPECT_GT(graph.ran.size(), 1U);
        EXPECT_EQ(reckoned, graph.ran) << "seed " << seed;
    }
}

TEST(BackwardOrder, leaves_out_what_no_asked_gradient_needs) {
    install_engine();
    std::size_t left_out = 0;
    for (unsigned seed = 0; seed < 50; ++seed) {
        Graph graph(seed);
        at::Tensor const root = graph.tensors.back();
        at::Tensor const gradient = torch::autograd::grad(
            {root}, {graph.tensors[seed % 4]}, {at::ones({2})}, true, false, /*allow_unused=*/true
        )[0];
        if (!gradient.defined()) {
            continue;  // the leaf is not in this graph
        }
        Order const some = graph.reckoned();
        EXPECT_EQ(some, graph.ran) << "seed " << seed;
        graph.ran.clear();
        torch::autograd::backward({root}, {at::ones({2})});
        left_out += graph.ran.size() - some.size();
    }
    EXPECT_GT(left_out, 0U);
}

TEST(BackwardOrder, outside_of_a_backward_there_is_none) {
    EXPECT_EQ(backward_here(), nullptr);
}

}  // namespace
}  // namespace spillway
