// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The order in which torch's engine runs the nodes of a backward.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace spillway {

/// What the engine was asked to run. It keeps the graph alive.
struct Backward {
    torch::autograd::edge_list roots;
    torch::autograd::edge_list outputs;  ///< empty: every leaf's gradient is wanted
};

/// The rank of each node that will run, by its sequence number: of those whose inputs are there the
/// youngest runs first, as on one device. Where several devices or threads share a backward it is
/// close to what they do.
///
/// Thread  any, also while the backward runs: edges stay as they are
[[nodiscard]] std::unordered_map<std::uint64_t, std::size_t> rank_of_nodes(Backward const& backward
);

/// A hook gets the leaf's gradient as soon as it is there (`register_post_accumulate_grad_hook`),
/// and may free it: an optimizer that steps in backward does.
[[nodiscard]] bool has_gradient_hook(at::Tensor const& leaf);

}  // namespace spillway
