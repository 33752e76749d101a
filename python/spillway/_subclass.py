# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Saved tensors of subclasses of torch.Tensor come back with their class and attributes: autograd gives what
saved-tensor hooks return back as a plain tensor."""

import torch


def _copy() -> None:
    """Called by the runtime, where a Function asks for a saved tensor of a subclass."""
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
        original = torch.ops.spillway.subclass_to_copy()
        copy = torch.Tensor._make_subclass(type(original), original)
        copy.__dict__.update(original.__dict__)
        torch.ops.spillway.subclass_copied(copy)


def register() -> None:
    """Once a process: tells the runtime which classes are torch's own."""
    torch.ops.spillway.set_python_classes(id(torch.Tensor), id(torch.nn.Parameter), id(_copy))
