// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Any operator without a kernel of its own: the CPU's kernel, run late, over the device's bytes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace late {

void fallback(c10::OperatorHandle const& op, torch::jit::Stack* stack);

}  // namespace late
