// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/generated_node.h"

#include "torch_driver/origin/known_of_type.h"

#include <cctype>

namespace spillway {

std::optional<std::string_view> generated_node(std::type_info const& node) {
    constexpr std::string_view kGenerated = "N5torch8autograd9generated";
    std::string_view name = node.name();
    if (!name.starts_with(kGenerated)) {
        return std::nullopt;
    }
    name.remove_prefix(kGenerated.size());
    while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) != 0) {
        name.remove_prefix(1);  // the length of what follows
    }
    return name.substr(0, name.size() - 1);  // the mangled name's "E"
}

bool is_generated(std::type_info const& node) {
    static thread_local KnownOfType<bool> known;
    return known.of(node, [](std::type_info const& asked) {
        return generated_node(asked).has_value();
    });
}

bool is_python_function(std::type_info const& node) {
    return std::string_view(node.name()) == "N5torch8autograd6PyNodeE";
}

}  // namespace spillway
