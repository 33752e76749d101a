// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which nodes of a graph are those of torch's own operators, and which are Functions.
#pragma once

#include <optional>
#include <string_view>
#include <typeinfo>

namespace spillway {

/// "ViewBackward0" of a node that torch generated for an operator; none for what a user or another
/// library wrote. By the mangled name: to demangle it costs more than all the rest of a save.
[[nodiscard]] std::optional<std::string_view> generated_node(std::type_info const& node);

/// Whether it is such a node. Quick: what a thread asked before it remembers by the type's address.
[[nodiscard]] bool is_generated(std::type_info const& node);

/// Whether it is the node of a Function written in Python (torch.autograd.Function).
[[nodiscard]] bool is_python_function(std::type_info const& node);

}  // namespace spillway
