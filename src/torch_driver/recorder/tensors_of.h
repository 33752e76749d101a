// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The tensors among an operator's arguments or results.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>

namespace spillway {

/// Calls `visit(index, element, tensor)` for each defined tensor; `element` is its place in a list,
/// or -1.
template <typename Values, typename Visit>
void each_tensor(Values const& values, Visit const& visit) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        c10::IValue const& value = values[i];
        if (value.isTensor()) {
            if (value.toTensor().defined()) {
                visit(static_cast<int>(i), -1, value.toTensor());
            }
        } else if (value.isList()) {
            auto const list = value.toListRef();
            for (std::size_t k = 0; k < list.size(); ++k) {
                if (list[k].isTensor() && list[k].toTensor().defined()) {
                    visit(static_cast<int>(i), static_cast<int>(k), list[k].toTensor());
                }
            }
        }
    }
}

}  // namespace spillway
