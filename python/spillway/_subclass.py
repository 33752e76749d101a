# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Saved tensors of subclasses of torch.Tensor come back with their class and attributes. Autograd alone turns what
saved-tensor hooks return into a plain tensor."""

import torch


def _copy() -> None:
    """Called by the runtime when a Function unpacks a saved tensor of a subclass."""
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
        original = torch.ops.spillway.subclass_to_copy()
        copy = torch.Tensor._make_subclass(type(original), original)
        copy.__dict__.update(original.__dict__)
        torch.ops.spillway.subclass_copied(copy)


def register() -> None:
    """Called once per process: passes the classes that are torch's own to the runtime."""
    torch.ops.spillway.set_python_classes(id(torch.Tensor), id(torch.nn.Parameter), id(_copy))
