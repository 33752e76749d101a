# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Several graphs, several backwards: which run, in which order, and which never."""

from typing import Any

import torch
from case import Subject, case
from cases_graph import deep


def _two(s: Subject, order: tuple[int, int]) -> Any:
    x = s.leaf()
    outs = s.run(lambda x: (deep(x), (x * 3).sin().exp()), x)
    grads = []
    for which in order:
        outs[which].sum().backward()
        grads.append(x.grad.clone())
    return grads


@case("trl#3717 6.29")
def two_forwards_in_order(s: Subject) -> Any:
    """two graphs of one region, backwards in the same order"""
    return _two(s, (0, 1))


@case("trl#3717 6.29")
def two_forwards_reversed(s: Subject) -> Any:
    """two graphs of one region, backwards in the reverse order"""
    return _two(s, (1, 0))


@case("Megatron-LM#6783 6.29")
def one_forward_one_backward(s: Subject) -> Any:
    """micro-batches in flight, first in first out, each entered anew, as pipelines have them"""
    net = s.module(torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)))
    flying = []
    for number in range(6):
        flying.append(s.run(lambda x: net(x.sin()), s.leaf()))
        if number >= 2:
            flying.pop(0).square().mean().backward()
    for out in flying:
        out.square().mean().backward()
    return [p.grad for p in net.parameters()]


@case("8.3")
def two_forwards_one_backward(s: Subject) -> Any:
    """two forwards and one backward of their sum, as preference losses have them"""
    net = s.module(torch.nn.Linear(128, 256))
    x, y = s.leaf(), s.leaf()
    chosen, rejected = s.run(lambda x, y: (net(x).sigmoid().square(), net(y).sigmoid().square()), x, y)
    (chosen.mean() - rejected.mean()).sigmoid().log().backward()
    return x.grad, y.grad, net.weight.grad


@case("8.3")
def backward_inside(s: Subject) -> Any:
    """forward and backward inside"""
    def step(x: torch.Tensor) -> torch.Tensor:
        out = deep(x)
        s.settle()
        out.sum().backward(inputs=[x])
        return out.detach()
    x = s.leaf()
    s.run(step, x)
    return x.grad


@case("6.4")
def partial_backward(s: Subject) -> Any:
    """backward to some inputs only, then to the others"""
    x, y = s.leaf(), s.leaf()
    out = s.run(lambda x, y: (x.sin() * y.exp()).tanh() + y.cos(), x, y)
    out.sum().backward(inputs=[y], retain_graph=True)
    s.settle()
    out.sum().backward(inputs=[x])
    return x.grad, y.grad


@case("6.4")
def gradients_of_the_middle(s: Subject) -> Any:
    """gradients of the middle of a graph, then of the rest"""
    x = s.leaf()
    middle, out = s.run(lambda x: (middle := x.sin().exp(), middle.tanh().square()), x)
    (grad,) = torch.autograd.grad(out.sum(), middle)
    s.settle()
    middle.backward(grad)
    return grad, x.grad


@case("6.4 pytorch#198016")
def order_of_unpacking(s: Subject) -> Any:
    """branches that run backward in another order than they were made"""
    def forward(x: torch.Tensor) -> list[torch.Tensor]:
        return [(x * number).sin().exp() for number in range(1, 9)]
    x = s.leaf()
    outs = s.run(lambda x: tuple(forward(x)), x)
    order = [3, 0, 7, 1, 6, 2, 5, 4]
    grads = []
    for which in order:
        outs[which].sum().backward()
        grads.append(x.grad.clone())
    return grads


@case("6.4")
def several_roots(s: Subject) -> Any:
    """one backward from several outputs, one of them twice"""
    x = s.leaf()
    first, second = s.run(lambda x: (x.sin().exp(), (x * 2).tanh().square()), x)
    torch.autograd.backward([first, second, first], [s.tensor(), s.tensor(), s.tensor()])
    return x.grad


@case("6.4")
def unused_branch(s: Subject) -> Any:
    """a branch whose backward never runs"""
    x = s.leaf()
    used, _unused = s.run(lambda x: (x.sin().exp(), x.cos().tanh().square()), x)
    used.sum().backward()
    return x.grad


@case("6.4")
def unused_input(s: Subject) -> Any:
    """gradients of an input that is not in the graph"""
    x, y = s.leaf(), s.leaf()
    out = s.run(deep, x)
    given, missing = torch.autograd.grad(out.sum(), [x, y], allow_unused=True)
    return given, missing is None


@case("6.4")
def detached_half(s: Subject) -> Any:
    """half of the graph is cut off by detach"""
    x = s.leaf()
    out = s.run(lambda x: x.exp().sin().detach() * x.cos().tanh(), x)
    out.sum().backward()
    return x.grad
