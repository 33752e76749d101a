// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The differences between torch 2.11 and 2.15 that touch us, all found by what the headers offer.
#pragma once

#include <ATen/core/Tensor.h>

#include <type_traits>
#include <utility>

namespace spillway {

/// `Node` is owned by shared_ptr before 2.13, by intrusive_ptr since.
using NodePtr = std::decay_t<decltype(std::declval<at::Tensor const&>().grad_fn())>;

/// Newer engines have a virtual that a delegating engine must hand on, or node creation hooks
/// silently die.
template <typename Engine>
concept HasNodeCreationHooks = requires(Engine& engine) {
    engine.get_node_creation_hooks();
};

}  // namespace spillway
