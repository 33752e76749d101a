# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints inside and outside, regions in regions, and what the user does with the system's object."""

import contextlib
from typing import Any

import torch
from case import Subject, case
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, checkpoint_sequential
from torch.utils.checkpoint import create_selective_checkpoint_contexts as selective


def _deep(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.cos()).exp().tanh().sigmoid()


def _trained(s: Subject, forward: Any) -> Any:
    x = s.leaf()
    out = s.run(forward, x)
    out.sum().backward()
    return out, x.grad


@case("6.6")
def checkpoint_inside(s: Subject) -> Any:
    """checkpoint inside"""
    return _trained(s, lambda x: checkpoint(_deep, x.exp().sin(), use_reentrant=False).cos())


@case("6.6")
def reentrant_checkpoint_inside(s: Subject) -> Any:
    """the reentrant checkpoint inside"""
    return _trained(s, lambda x: checkpoint(_deep, x.exp().sin(), use_reentrant=True).cos())


@case("6.6", moves=False)
def checkpoint_outside(s: Subject) -> Any:
    """inside a checkpoint, entered again by the recompute"""
    x = s.leaf()
    out = checkpoint(lambda x: s.run(_deep, x.exp()).cos(), x, use_reentrant=False)
    out.sum().backward()
    return out, x.grad


@case("6.6", moves=False)
def reentrant_checkpoint_outside(s: Subject) -> Any:
    """inside the reentrant checkpoint, entered by the recompute"""
    x = s.leaf()
    out = checkpoint(lambda x: s.run(_deep, x.exp()).cos(), x, use_reentrant=True)
    out.sum().backward()
    return out, x.grad


@case("6.6", moves=False)
def checkpoint_with_closures(s: Subject) -> Any:
    """a checkpoint whose tensors come as names of the closure and as keywords"""
    y, z = s.leaf(), s.leaf()

    def forward(x: torch.Tensor) -> torch.Tensor:
        inner = x.exp()
        return checkpoint(
            lambda x, scale: (x * inner + y).sin() * scale, x, scale=z.exp(), use_reentrant=False)
    result = _trained(s, forward)
    return result, y.grad, z.grad


@case("6.6", moves=False)
def checkpoints_in_checkpoints(s: Subject) -> Any:
    """checkpoints in checkpoints"""
    def inner(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(_deep, x.cos(), use_reentrant=False).exp()
    return _trained(s, lambda x: checkpoint(lambda x: inner(x) * inner(x.sin()), x * 2, use_reentrant=False))


@case("6.6 6.3", moves=False)
def checkpoint_retained(s: Subject) -> Any:
    """a checkpoint inside, backward twice, and a gradient of its gradient"""
    x = s.leaf()
    out = s.run(lambda x: checkpoint(_deep, x * 2, use_reentrant=False).cos(), x)
    out.sum().backward(retain_graph=True)
    (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    grad.square().sum().backward()
    return x.grad


@case("6.30 unsloth-zoo#1218", moves=False)
def checkpoint_with_dropout(s: Subject) -> Any:
    """a checkpoint with dropout inside, and the state of random numbers after it"""
    drop = torch.nn.functional.dropout
    result = _trained(s, lambda x: drop(
        checkpoint(lambda x: drop(x.sin(), 0.3).exp(), x * 2, use_reentrant=False)))
    return result, torch.rand(4)


@case("6.6", moves=False)
def checkpoint_of_a_chain(s: Subject) -> Any:
    """checkpoint_sequential"""
    net = s.module(torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(4))))
    result = _trained(s, lambda x: checkpoint_sequential(net, 2, x, use_reentrant=False))
    return result, [p.grad for p in net.parameters()]


@case("6.14", raises="boom", moves=False)
def recompute_raises(s: Subject) -> Any:
    """the recompute of a checkpoint raises"""
    due: list[ValueError] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        if due:
            raise due[0]
        return _deep(x)
    x = s.leaf()
    out = s.run(lambda x: checkpoint(forward, x * 2, use_reentrant=False).cos(), x)
    s.write(lambda: due.append(ValueError("boom")))
    out.sum().backward()
    return x.grad


@case("6.6", raises="Recomputed values for the following tensors have different metadata", moves=False)
def recompute_differs(s: Subject) -> Any:
    """the recompute of a checkpoint saves other shapes"""
    rows = [256, 128]

    def forward(x: torch.Tensor) -> torch.Tensor:
        return x[:rows[0]].sin().exp().sum()
    x = s.leaf()
    out = s.run(lambda x: checkpoint(forward, x * 2, use_reentrant=False).cos(), x)
    s.write(lambda: rows.pop(0))
    out.backward()
    return x.grad


@case("6.7", moves=False)
def selective_checkpoint(s: Subject) -> Any:
    """selective checkpoint that keeps products"""
    weight = s.leaf(128, 128)

    def contexts() -> Any:
        return selective([torch.ops.aten.mm.default])
    result = _trained(s, lambda x: checkpoint(
        lambda x: (x.sin() @ weight).exp() @ weight, x * 2, use_reentrant=False, context_fn=contexts))
    return result, weight.grad


@case("6.7", moves=False)
def selective_checkpoint_that_shows(s: Subject) -> Any:
    """selective checkpoint that keeps everything and shows it to the hooks around it (from torch 2.15)"""
    weight = s.leaf(128, 128)
    named: dict[str, Any] = {}
    if "respect_saved_tensors_hooks" in _names_of(checkpoint):
        named["respect_saved_tensors_hooks"] = True

    def contexts() -> Any:
        return selective(lambda *_, **__: CheckpointPolicy.MUST_SAVE)
    result = _trained(s, lambda x: checkpoint(
        lambda x: (x.sin() @ weight).exp() @ weight, x * 2, use_reentrant=False, context_fn=contexts,
        **named))
    return result, weight.grad


def _names_of(function: Any) -> Any:
    import inspect
    return inspect.signature(function).parameters


@case("6.6 5.6")
def nested_regions(s: Subject) -> Any:
    """a second object of the system inside the first"""
    x = s.leaf()
    with s.region():
        hidden = x.exp().sin()
        with s.another():
            inner = _deep(hidden)
        out = inner.cos().exp()
    out.sum().backward()
    return x.grad


@case("6.6 5.6")
def nested_functions(s: Subject) -> Any:
    """a function under the system inside a function under the system"""
    return _trained(s, lambda x: s.system.call_inside(_deep, x.exp().sin()).cos())


@case("peers_today 2")
def entered_again_before_backward(s: Subject) -> Any:
    """left and entered again before the first backward"""
    x = s.leaf()
    with s.region():
        first = _deep(x)
    with s.region():
        second = x.exp().sin()
    first.sum().backward()
    second.sum().backward()
    return x.grad


@case("5.6")
def entered_in_pieces(s: Subject) -> Any:
    """one graph of pieces inside and outside"""
    x = s.leaf()
    hidden = s.run(_deep, x).sin()
    out = s.run(_deep, hidden.exp()).cos().exp()
    out.sum().backward()
    return x.grad


@case("5.6")
def object_gone_before_backward(s: Subject) -> Any:
    """the system's object is gone or closed before backward"""
    x = s.leaf()
    out = s.run(_deep, x)
    s.system.drop()
    out.sum().backward()
    return x.grad


@case("5.6")
def new_object_while_a_graph_lives(s: Subject) -> Any:
    """a new object while the older one's graph lives; both backwards"""
    x = s.leaf()
    first = s.run(_deep, x)
    with s.another():
        second = x.exp().sin()
    first.sum().backward()
    second.sum().backward()
    return x.grad


@case("5.6")
def inside_another_offloader(s: Subject) -> Any:
    """inside save_on_cpu"""
    x = s.leaf()
    with save_on_cpu(device_type=s.device.type):
        hidden = x.exp().sin()
        out = s.run(_deep, hidden)
    out.sum().backward()
    return x.grad


@case("trl#5700 6.14")
def leaves_nothing_switched_on(s: Subject) -> Any:
    """what runs after the region is plain: its saves are not the system's"""
    x = s.leaf()
    s.run(_deep, x).sum().backward()
    before = s.system.moved_bytes()
    out = _deep(x)
    s.settle()
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    out.sum().backward()
    return hooks is None, s.system.moved_bytes() == before, x.grad


@case("5.6")
def exit_stack(s: Subject) -> Any:
    """entered by an ExitStack, left while a backward is due"""
    x = s.leaf()
    with contextlib.ExitStack() as stack:
        stack.enter_context(s.region())
        out = _deep(x)
        (grad,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    out.sum().backward()
    return grad, x.grad
