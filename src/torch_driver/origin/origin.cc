// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/origin.h"

#include "torch_driver/origin/saved_role.h"

#include <c10/util/Type.h>

namespace spillway {

std::string Origin::name() const {
    if (node == nullptr) {
        return "input";
    }
    std::string full = c10::demangle(node->name());
    std::size_t const last = full.rfind("::");
    return last == std::string::npos ? full : full.substr(last + 2);
}

std::string Origin::words() const {
    return node == nullptr ? "made outside the graph"
                           : "output of " + operator_of_node(name()) + " (" + name() + ")";
}

Slot SlotCounter::next(Origin const& origin) {
    Producer& producer = producers_[{origin.node, origin.output}];
    if (producer.name.empty()) {
        producer.name = origin.name();
    }
    return {producer.name, static_cast<std::int32_t>(origin.output), producer.saved++};
}

void SlotCounter::begin_pass() {
    for (auto& [key, producer] : producers_) {
        producer.saved = 0;
    }
}

}  // namespace spillway
