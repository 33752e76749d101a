# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Changes that no version counts: plain autograd's backward sees what is there then."""

from typing import Any

import torch
from case import NotApplicable, Subject, case
from cases_in_place import finish, saved


@case("6.16", wrong="the bytes from before the write are used")
def write_through_data(s: Subject) -> Any:
    """written through .data, which plain autograd does not count: backward sees the new bytes"""
    x, hidden, out = saved(s)
    hidden.data.add_(1)
    del hidden
    s.settle()
    return finish(x, out)


@case("6.16", wrong="the bytes from before the write are used")
def write_with_kept_version(s: Subject) -> Any:
    """written with the version preserved, as FSDP2 does: backward sees the new bytes"""
    x, hidden, out = saved(s)
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(hidden):
        hidden.add_(1)
    del hidden
    s.settle()
    return finish(x, out)


@case("6.16", wrong="the bytes from before the write are used")
def write_through_numpy(s: Subject) -> Any:
    """written through numpy, which plain autograd does not see: backward sees the new bytes"""
    x, hidden, out = saved(s)
    if s.device.type != "cpu":
        raise NotApplicable("numpy sees memory of the CPU only")
    array = hidden.detach().numpy()
    array += 1
    del hidden, array
    s.settle()
    return finish(x, out)


@case("6.16 VeOmni#872", wrong="other bytes than the user put there")
def storage_emptied_and_refilled(s: Subject) -> Any:
    """an activation's storage is resized to nothing, then refilled before backward"""
    x, hidden, out = saved(s)
    held = hidden.detach().clone()
    storage = hidden.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    s.settle()
    storage.resize_(size)
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(hidden):
        hidden.copy_(held)
    return finish(x, out)


@case("6.10 6.16", moves=False)
def parameter_emptied_and_refilled(s: Subject) -> Any:
    """a parameter's storage is freed after the forward and refilled before backward, as FSDP does"""
    net = s.module(torch.nn.Linear(128, 256))
    x = s.leaf()
    out = s.run(net, x)
    held = net.weight.detach().clone()
    storage = net.weight.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    s.settle()
    storage.resize_(size)
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(net.weight):
        net.weight.copy_(held)
    return finish(x, out)


@case("6.10", moves=False, wrong="another value than the parameter's is used")
def parameter_data_replaced(s: Subject) -> Any:
    """a parameter's .data is replaced between forward and backward, as FSDP1 does"""
    net = s.module(torch.nn.Linear(256, 128, bias=False))
    x, fresh = s.leaf(), s.tensor(128, 256)
    out = s.run(lambda x: x @ net.weight, x)
    net.weight.data = fresh
    return finish(x, out)


@case("6.16", wrong="another value than the tensor's is used")
def storage_set(s: Subject) -> Any:
    """an activation is given another storage between forward and backward"""
    x, hidden, out = saved(s)
    fresh = s.tensor()
    with torch.no_grad():
        hidden.data = fresh
    return finish(x, out)


@case("6.16", wrong="the saved bytes are used")
def storage_set_then_forgotten(s: Subject) -> Any:
    """the same, and every name of it goes before backward: plain autograd still has the tensor"""
    x, hidden, out = saved(s)
    hidden.data = s.tensor()
    del hidden
    s.settle()
    return finish(x, out)


@case("6.16", wrong="the saved bytes are used")
def mask_set_then_forgotten(s: Subject) -> Any:
    """the same with a mask, and twice: a leaf that needs no gradient is given other data, and goes"""
    x, mask = s.leaf(), s.tensor()
    out = s.run(lambda x, mask: (x * mask).sin() * mask, x, mask)
    mask.data = s.tensor()
    mask.data = s.tensor() + 1
    del mask
    s.settle()
    return finish(x, out)


@case("6.16 6.11", moves=False, wrong="the saved bytes are used")
def small_tensor_set_then_forgotten(s: Subject) -> Any:
    """the same with an activation that is too small to move"""
    x = s.leaf()
    small, out = s.run(lambda x: (small := x[:1, :4].exp(), small.sin().sum() * x.sum()), x)
    small.data = torch.ones_like(small) * 3
    del small
    s.settle()
    return finish(x, out)


@case("6.16 6.3", wrong="the bytes from before the write are used")
def write_what_python_read_through_data(s: Subject) -> Any:
    """a node's saved tensor is read from Python and written through .data: backward sees the new bytes"""
    x = s.leaf()
    out = s.run(lambda x: (x * 2).sin().cos(), x)
    out.grad_fn._saved_self.data.add_(1)
    s.settle()
    return finish(x, out)
