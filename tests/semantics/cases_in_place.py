# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Writes in place: where plain autograd raises, and where it does not."""

from typing import Any

import torch
from case import WRITTEN, Subject, case
from torch.utils.checkpoint import checkpoint


def saved(s: Subject) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A leaf, an activation that sin saves and the user holds, and the output. What cos saves may leave."""
    x = s.leaf()
    hidden, out = s.run(lambda x: (hidden := x * 2, hidden.sin().cos()), x)
    return x, hidden, out


def finish(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    out.sum().backward()
    return x.grad


@case("6.1", raises=WRITTEN)
def write_after_save(s: Subject) -> Any:
    """an activation is written after it was saved"""
    x, hidden, out = saved(s)
    s.write(lambda: hidden.add_(1))
    return finish(x, out)


@case("6.1", raises=WRITTEN)
def write_through_view(s: Subject) -> Any:
    """written through a view"""
    x, hidden, out = saved(s)
    s.write(lambda: hidden[3:5].mul_(2))
    return finish(x, out)


@case("6.1", raises=WRITTEN)
def write_through_alias(s: Subject) -> Any:
    """written through a detached alias"""
    x, hidden, out = saved(s)
    s.write(lambda: hidden.detach().add_(1))
    return finish(x, out)


@case("6.1", raises=WRITTEN)
def write_without_grad(s: Subject) -> Any:
    """written inside no_grad"""
    x, hidden, out = saved(s)
    with torch.no_grad():
        s.write(lambda: hidden.zero_())
    return finish(x, out)


@case("6.21", raises=WRITTEN)
def write_by_later_forward(s: Subject) -> Any:
    """written by a later operator of the same forward"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden = x * 2
        out = hidden.sin().cos()
        s.write(lambda: hidden.relu_())
        return out
    x = s.leaf()
    return finish(x, s.run(forward, x))


@case("6.1", raises=WRITTEN)
def write_then_forget(s: Subject) -> Any:
    """written, then every name of it goes before backward"""
    x, hidden, out = saved(s)
    s.write(lambda: hidden.add_(1))
    del hidden
    s.settle()
    return finish(x, out)


@case("6.15", raises=WRITTEN)
def write_through_last_view(s: Subject) -> Any:
    """written through the only view that is left of it"""
    x, hidden, out = saved(s)
    view = hidden[:2]
    del hidden
    s.settle()
    s.write(lambda: view.add_(1))
    del view
    return finish(x, out)


@case("6.1", raises=WRITTEN)
def write_output_of_node(s: Subject) -> Any:
    """the output that its own node saved is written"""
    x = s.leaf()
    out = s.run(lambda x: (x * 2).sin().exp(), x)
    total = out.sum()
    s.write(lambda: out.add_(1))
    return finish(x, total)


@case("6.1", raises=WRITTEN)
def write_out_argument(s: Subject) -> Any:
    """written as the out= of an operator"""
    x, hidden, out = saved(s)
    other = s.tensor()
    with torch.no_grad():
        s.write(lambda: torch.add(other, 1, out=hidden))
    return finish(x, out)


@case("6.1", raises=WRITTEN)
def write_input(s: Subject) -> Any:
    """the batch is overwritten before backward"""
    x, weight = s.tensor(), s.leaf()
    out = s.run(lambda x, weight: (x * weight).sin(), x, weight)
    following = s.tensor()
    s.write(lambda: x.copy_(following))
    return finish(weight, out)


@case("6.10", raises=WRITTEN, moves=False)
def write_parameter(s: Subject) -> Any:
    """the optimizer steps between forward and backward"""
    net = s.module(torch.nn.Linear(128, 128))
    x = s.leaf()
    out = s.run(net, x)
    with torch.no_grad():
        s.write(lambda: net.weight.sub_(0.1))
    return finish(x, out)


@case("6.1", raises=WRITTEN, moves=False)
def write_small(s: Subject) -> Any:
    """a tensor below every size floor is written"""
    x = s.leaf(4)
    hidden, out = s.run(lambda x: (hidden := x * 2, hidden.sin()), x)
    s.write(lambda: hidden.add_(1))
    return finish(x, out)


@case("6.9", raises=WRITTEN)
def write_mask(s: Subject) -> Any:
    """a saved mask of bool is written"""
    x = s.leaf(512, 256)
    mask = s.tensor(512, 256) > 0
    out = s.run(lambda x: (x * 2).sin().masked_fill(mask, 0), x)
    s.write(lambda: mask.logical_not_())
    return finish(x, out)


@case("6.6 peers_today 1.2", raises=WRITTEN, moves=False)
def write_checkpoint_input(s: Subject) -> Any:
    """the input of a checkpoint is written after the call"""
    x = s.leaf()
    hidden, out = s.run(lambda x: (hidden := x * 2, checkpoint(torch.sin, hidden, use_reentrant=False)), x)
    s.write(lambda: hidden.add_(1))
    return finish(x, out)


@case("6.1 6.3", raises=WRITTEN)
def write_between_backwards(s: Subject) -> Any:
    """written between a backward that retains and the next"""
    x, hidden, out = saved(s)
    out.sum().backward(retain_graph=True)
    s.write(lambda: hidden.add_(1))
    return finish(x, out)


@case("6.19", raises=WRITTEN)
def write_one_of_two_versions(s: Subject) -> Any:
    """saved, written, saved again: backward through both"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden = x * 2
        first = hidden.sin()
        s.write(lambda: hidden.detach().add_(1))
        return first.cos() + hidden.cos()
    x = s.leaf()
    return finish(x, s.run(forward, x))


@case("6.19")
def second_of_two_versions(s: Subject) -> Any:
    """saved, written, saved again: backward through the second only"""
    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = x * 2
        first = hidden.sin()
        hidden.detach().add_(1)
        return first, hidden.cos().exp().sin()
    x = s.leaf()
    _, second = s.run(forward, x)
    return finish(x, second)


@case("6.19")
def versions_that_are_not_saved(s: Subject) -> Any:
    """a residual that is added to in place, saved by one node only"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        stream = x * 1
        for _ in range(4):
            stream += stream.detach().sin() * x
        return stream.sin()
    x = s.leaf()
    return finish(x, s.run(forward, x))


@case("6.1")
def write_before_save(s: Subject) -> Any:
    """written before it is saved"""
    x = s.leaf()
    return finish(x, s.run(lambda x: (x * 2).add_(1).mul_(3).sin(), x))


@case("6.2")
def operators_in_place(s: Subject) -> Any:
    """operators in place that save their own output"""
    x = s.leaf()
    return finish(x, s.run(lambda x: (((x * 2).exp_() * 3).sigmoid_() + 1).tanh_(), x))


@case("6.1", moves=False)
def write_of_what_nobody_saved(s: Subject) -> Any:
    """written, but no node needs it"""
    x = s.leaf()
    hidden, out = s.run(lambda x: (hidden := x + 2, hidden + 1), x)
    hidden.add_(1)
    return finish(x, out)


@case("6.1 6.3", raises=WRITTEN)
def write_what_python_read(s: Subject) -> Any:
    """a node's saved tensor is read from Python and written"""
    x = s.leaf()
    out = s.run(lambda x: (x * 2).sin().cos(), x)
    s.write(lambda: out.grad_fn._saved_self.detach().add_(1))
    return finish(x, out)


@case("6.1 6.11", raises=WRITTEN)
def function_writes_what_it_unpacked(s: Subject) -> Any:
    """a Function's backward writes what it unpacked; the retained graph is run again"""
    class Writes(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (held,) = ctx.saved_tensors
            s.write(lambda: held.detach().mul_(2))
            return grad * held
    x = s.leaf()
    out = s.run(lambda x: Writes.apply((x * 2).sin()), x)
    out.sum().backward(retain_graph=True)
    s.settle()
    return finish(x, out)


@case("6.1")
def mutation_allowed(s: Subject) -> Any:
    """torch's allow_mutation_on_saved_tensors inside: the value from before the write is used"""
    x = s.leaf()

    def forward(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).exp().sin()

    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        hidden = x * 2
        out = hidden.sin()
        hidden.add_(1)
        total = out.sum() + s.run(forward, x).sum()
        total.backward()
    return x.grad


@case("pytorch#96319", raises="has been mutated", moves=False)
def write_what_a_policy_keeps(s: Subject) -> Any:
    """selective checkpoint keeps a product that is written in place afterwards"""
    from torch.utils.checkpoint import create_selective_checkpoint_contexts
    weight = s.leaf(128, 128)

    def block(x: torch.Tensor) -> torch.Tensor:
        product = x @ weight
        out = product.sin()
        s.write(lambda: product.detach().add_(1))
        return out

    def contexts() -> Any:
        return create_selective_checkpoint_contexts([torch.ops.aten.mm.default])

    x = s.leaf()
    out = s.run(lambda x: checkpoint(block, x * 2, use_reentrant=False, context_fn=contexts), x)
    return finish(x, out)
