// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/backward_order.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <queue>
#include <unordered_set>
#include <vector>

namespace spillway {

namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;

struct OlderNode {
    bool operator()(Node const* one, Node const* other) const {
        return one->sequence_nr() < other->sequence_nr();
    }
};

/// How many edges of the graph come to each node.
std::unordered_map<Node const*, std::size_t> count_edges(edge_list const& roots) {
    std::unordered_map<Node const*, std::size_t> edges_to;
    std::vector<Node const*> fresh;
    auto const follow = [&](edge_list const& edges) {
        for (Edge const& edge : edges) {
            if (edge.is_valid() && edges_to[edge.function.get()]++ == 0) {
                fresh.push_back(edge.function.get());
            }
        }
    };
    follow(roots);
    while (!fresh.empty()) {
        Node const* const node = fresh.back();
        fresh.pop_back();
        follow(node->next_edges());
    }
    return edges_to;
}

/// All nodes, in the order in which they would run.
std::vector<Node const*> in_order(edge_list const& roots) {
    std::unordered_map<Node const*, std::size_t> missing = count_edges(roots);
    std::priority_queue<Node const*, std::vector<Node const*>, OlderNode> ready;
    auto const has_run = [&](edge_list const& edges) {
        for (Edge const& edge : edges) {
            if (edge.is_valid() && --missing.at(edge.function.get()) == 0) {
                ready.push(edge.function.get());
            }
        }
    };
    has_run(roots);
    std::vector<Node const*> order;
    while (!ready.empty()) {
        order.push_back(ready.top());
        ready.pop();
        has_run(order.back()->next_edges());
    }
    return order;
}

/// Those on a way to one of `outputs`; the outputs themselves are not run for it.
std::unordered_set<Node const*> on_a_way(
    std::vector<Node const*> const& order, edge_list const& outputs
) {
    std::unordered_set<Node const*> ends;
    for (Edge const& edge : outputs) {
        ends.insert(edge.function.get());
    }
    std::unordered_set<Node const*> found;
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
        for (Edge const& edge : (*node)->next_edges()) {
            if (ends.count(edge.function.get()) != 0 || found.count(edge.function.get()) != 0) {
                found.insert(*node);
            }
        }
    }
    return found;
}

}  // namespace

std::unordered_map<std::uint64_t, std::size_t> rank_of_nodes(Backward const& backward) {
    std::vector<Node const*> const order = in_order(backward.roots);
    bool const all = backward.outputs.empty();
    std::unordered_set<Node const*> const wanted =
        all ? std::unordered_set<Node const*>{} : on_a_way(order, backward.outputs);
    std::unordered_map<std::uint64_t, std::size_t> rank;
    for (Node const* const node : order) {
        if (all || wanted.count(node) != 0) {
            rank.emplace(node->sequence_nr(), rank.size());
        }
    }
    return rank;
}

bool has_gradient_hook(at::Tensor const& leaf) {
    auto const* const meta = torch::autograd::impl::get_autograd_meta(leaf);
    return meta != nullptr && meta->post_acc_grad_hooks_ != nullptr;
}

}  // namespace spillway
