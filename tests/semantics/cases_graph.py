# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Backward in every order and as often as plain autograd allows."""

from typing import Any

import torch
from case import Subject, case

TWICE = "Trying to backward through the graph a second time"


def deep(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.cos()).exp().tanh().sigmoid()


@case("8.3", moves=True)
def gradients(s: Subject) -> Any:
    """gradients of a small model"""
    net = s.module(torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 128)))
    x = s.leaf()
    out = s.run(net, x)
    out.square().mean().backward()
    return out, x.grad, [p.grad for p in net.parameters()]


@case("fairscale#1146")
def forward_result(s: Subject) -> Any:
    """what the forward gives, at once"""
    x = s.leaf()
    out = s.run(deep, x)
    return out, out.requires_grad, out.is_leaf, out._version


@case("6.3")
def retain_twice(s: Subject) -> Any:
    """backward twice with retain_graph"""
    x = s.leaf()
    out = s.run(deep, x)
    out.sum().backward(retain_graph=True)
    s.settle()
    out.square().sum().backward()
    return x.grad


@case("6.3")
def retain_often(s: Subject) -> Any:
    """backward ten times with retain_graph, the last without"""
    x = s.leaf()
    out = s.run(deep, x)
    grads = [torch.autograd.grad(out, x, s.tensor(), retain_graph=number < 9) for number in range(10)]
    return grads


@case("6.3", raises=TWICE)
def again_without_retain(s: Subject) -> Any:
    """backward a second time without retain_graph"""
    x = s.leaf()
    out = s.run(deep, x)
    total = out.sum()
    total.backward()
    s.write(total.backward)
    return x.grad


@case("6.8")
def double_backward(s: Subject) -> Any:
    """a gradient of a gradient, the first backward outside"""
    x = s.leaf()
    out = s.run(deep, x)
    (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    grad.square().sum().backward()
    return x.grad


@case("6.8")
def double_backward_inside(s: Subject) -> Any:
    """a gradient of a gradient, the first backward inside"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        (grad,) = torch.autograd.grad(deep(x).sum(), x, create_graph=True)
        return grad
    x = s.leaf()
    grad = s.run(forward, x)
    grad.square().sum().backward()
    return grad, x.grad


@case("6.8")
def gradient_penalty(s: Subject) -> Any:
    """a penalty on the gradient, trained through"""
    net = s.module(torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)))

    def forward(x: torch.Tensor) -> torch.Tensor:
        score = net(x)
        (grad,) = torch.autograd.grad(score.sum(), x, create_graph=True)
        return score.mean() + (grad.norm(dim=1) - 1).square().mean()
    x = s.leaf()
    loss = s.run(forward, x)
    loss.backward()
    return loss, [p.grad for p in net.parameters()]


@case("6.8", moves=False)
def requires_grad_since_the_save(s: Subject) -> Any:
    """an input is set to require a gradient after an operator saved it, and a gradient of a gradient asked for"""
    x, w = s.tensor(), s.leaf()
    out = s.run(lambda w: (x * w).exp(), w)
    x.requires_grad_()
    (grad,) = torch.autograd.grad(out.sum(), w, create_graph=True)
    (grad.square().sum() + (x * 0).sum()).backward()
    return w.grad, x.grad


@case("6.8")
def third_order(s: Subject) -> Any:
    """three levels of gradients"""
    x = s.leaf()
    value = s.run(deep, x).sum()
    for _ in range(2):
        (value,) = torch.autograd.grad(value, x, create_graph=True)
        value = value.square().sum()
    value.backward()
    return x.grad


@case("6.3")
def names_gone_in_any_order(s: Subject) -> Any:
    """intermediates go in another order than they were made"""
    x = s.leaf()
    parts = list(s.run(lambda x: (a := x.sin(), b := a.exp(), c := b.tanh(), c.square()), x))
    for which in (1, 0, 0):
        del parts[which]
        s.settle()
    parts[0].sum().backward()
    return x.grad


@case("6.4", moves=False)
def ten_thousand_nodes(s: Subject) -> Any:
    """a graph of ten thousand nodes"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        for number in range(10000):
            x = x * 1.0001 if number % 2 else x.sin()
        return x
    x = s.leaf(4)
    s.run(forward, x).sum().backward()
    return x.grad


@case("6.4")
def two_hundred_large_nodes(s: Subject) -> Any:
    """more saved bytes than any budget here"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        for _ in range(100):
            x = (x * 1.01).sin()
        return x
    x = s.leaf()
    s.run(forward, x).sum().backward()
    return x.grad


@case("6.3")
def saved_seen_from_python(s: Subject) -> Any:
    """a node's saved tensor is read from Python, twice, and then used"""
    x = s.leaf()
    out = s.run(lambda x: (x * 2).exp().sin(), x)
    seen = [out.grad_fn._saved_self, out.grad_fn._saved_self]
    out.sum().backward()
    return seen, x.grad


@case("6.3", raises=TWICE)
def saved_seen_too_late(s: Subject) -> Any:
    """a node's saved tensor is read after backward freed it"""
    x = s.leaf()
    out = s.run(lambda x: (x * 2).exp().sin(), x)
    out.sum().backward()
    s.write(lambda: out.grad_fn._saved_self)
    return x.grad


@case("6.4")
def gradient_edge(s: Subject) -> Any:
    """backward from an edge, after the output itself is gone"""
    x = s.leaf()
    out = s.run(deep, x)
    edge = torch.autograd.graph.get_gradient_edge(out)
    grad = torch.ones_like(out)
    del out
    s.settle()
    torch.autograd.backward(edge, grad)
    return x.grad


@case("6.10", moves=True)
def frozen_before_backward(s: Subject) -> Any:
    """a parameter is frozen and another one's gradient is asked for between forward and backward"""
    net = s.module(torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)))
    x = s.leaf()
    out = s.run(net, x)
    net[0].weight.requires_grad_(False)
    out.square().mean().backward()
    return x.grad, [p.grad is None for p in net.parameters()], net[2].weight.grad


@case("6.5")
def batched_gradients(s: Subject) -> Any:
    """one backward for several gradients at once (is_grads_batched)"""
    x = s.leaf()
    out = s.run(deep, x)
    grads = torch.stack([s.tensor(), s.tensor(), s.tensor()])
    return torch.autograd.grad(out, x, grads, is_grads_batched=True)


@case("6.8")
def hessian_vector_product(s: Subject) -> Any:
    """torch.autograd.functional.hvp of a function that runs under the system"""
    x, v = s.tensor(), s.tensor()
    return torch.autograd.functional.hvp(lambda x: s.run(deep, x).sum(), x, v)


@case("8.3", moves=False)
def numeric_check(s: Subject) -> Any:
    """gradcheck and gradgradcheck"""
    x = s.leaf(3, 4, dtype=torch.float64)
    check = (lambda x: s.run(lambda x: x.sin().exp() * x, x),)
    return (torch.autograd.gradcheck(*check, (x,)), torch.autograd.gradgradcheck(*check, (x,)))
