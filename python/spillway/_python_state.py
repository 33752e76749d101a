# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Saved tensors come back with their Python class and attributes. Autograd alone turns what saved-tensor hooks return
into a plain tensor without attributes. The runtime calls these when a Function unpacks a saved tensor."""

import torch


def _copy() -> None:
    """For wrapper classes, whose tensors have no memory of their own, and for classes with slots."""
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
        original = torch.ops.spillway.python_state_from()
        copy = torch.Tensor._make_subclass(type(original), original)
        copy.__dict__.update(original.__dict__)
        for slot in {name for kind in type(original).__mro__ for name in kind.__dict__.get("__slots__", ())}:
            if hasattr(original, slot):
                object.__setattr__(copy, slot, getattr(original, slot))
        torch.ops.spillway.python_state_copied(copy)


def _give() -> None:
    """Both tensors share one dictionary of attributes: a flag that backward sets is seen on the original."""
    with torch._C.DisableTorchFunctionSubclass():
        original, tensor = torch.ops.spillway.python_state_from(), torch.ops.spillway.python_state_to()
        if type(original) is not torch.Tensor:
            object.__setattr__(tensor, "__class__", type(original))
        object.__setattr__(tensor, "__dict__", original.__dict__)


def register() -> None:
    """Called once per process: passes the classes that are torch's own to the runtime."""
    torch.ops.spillway.set_python_classes(id(torch.Tensor), id(torch.nn.Parameter), id(_copy), id(_give))
