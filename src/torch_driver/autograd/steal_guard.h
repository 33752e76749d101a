// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Keeps autograd from taking over a saved tensor's bytes as a gradient.
//
// Note [A saved tensor as a gradient]
// AccumulateGrad does not copy a gradient that nobody else refers to: it becomes `.grad` itself. A
// Function may return what it saved as a gradient (of a * b: b and a). Plain autograd has given it
// the saved tensor itself, to which its owner, another saver or a retained graph refers as well, so
// a copy is made. What we hand out is an alias with one owner: `.grad` would share the bytes of a
// parameter. So one more reference to it is kept while the backward may still pass it on, and is
// given up as soon as nobody else has one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace spillway {

/// In a backward: keeps a reference to `handed_out` until `end_idle_guards` finds it the only one,
/// or the backward ends, with those that it is nested in. Elsewhere: nothing.
///
/// Thread  any
void guard_from_stealing(at::Tensor const& handed_out);

/// A tensor to return from an unpack hook in place of `tensor`, of any layout, where torch makes a
/// variable of what it returns: that variable is guarded.
[[nodiscard]] at::Tensor guarded_when_wrapped(at::Tensor const& tensor);

/// Gives up the references that are the only ones. Cheap where there are none, and where there are
/// many, which are not all looked at each time: `now`, they are.
///
/// Thread  any, without a lock: tensors are freed
void end_idle_guards(bool now = false);

/// References kept now, for tests.
[[nodiscard]] std::size_t guards_from_stealing();

}  // namespace spillway
