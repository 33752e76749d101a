# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""torch.func, forward mode and torch.compile."""

from typing import Any

import torch
from case import Subject, case
from torch.utils.checkpoint import checkpoint


def _deep(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.cos()).exp().tanh().sigmoid()


def _compiled(function: Any) -> Any:
    torch.compiler.reset()
    return torch.compile(function, backend="aot_eager")


@case("6.12", moves=False)
def func_grad_inside(s: Subject) -> Any:
    """torch.func.grad inside"""
    return s.run(torch.func.grad(lambda x: _deep(x).sum()), s.tensor())


@case("6.12", moves=False)
def func_grad_around(s: Subject) -> Any:
    """torch.func.grad of a function that runs under the system"""
    return torch.func.grad(lambda x: s.run(_deep, x).sum())(s.tensor())


@case("6.12")
def func_grad_beside_a_graph(s: Subject) -> Any:
    """torch.func.grad and vjp inside, beside a graph that is kept"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        grad = torch.func.grad(lambda x: _deep(x).sum())(x)
        out, pull = torch.func.vjp(_deep, x.exp())
        return grad.sin() * out.cos() * pull(out)[0].exp()
    x = s.leaf()
    s.run(forward, x).sum().backward()
    return x.grad


@case("6.12")
def func_vmap(s: Subject) -> Any:
    """torch.vmap inside, gradients through it"""
    weight = s.leaf(128, 64)
    x = s.leaf(16, 32, 128)
    s.run(lambda x: torch.vmap(lambda row: (row.exp().sin() @ weight).tanh())(x), x).sum().backward()
    return x.grad, weight.grad


@case("6.12", moves=False)
def func_gradient_of_each_sample(s: Subject) -> Any:
    """vmap of grad with functional_call: a gradient for each sample"""
    net = s.module(torch.nn.Linear(128, 64))
    values = {name: p.detach() for name, p in net.named_parameters()}

    def loss(values: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(net, values, (row,)).exp().square().mean()
    return s.run(lambda x: torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(values, x), s.tensor(32, 128))


@case("6.12", moves=False)
def func_jacobians(s: Subject) -> Any:
    """jacrev, jacfwd and hessian"""
    x = s.tensor(8)
    return [s.run(transform(lambda x: (x.sin() * x.exp().sum()).cos().sum() * x), x)
            for transform in (torch.func.jacrev, torch.func.jacfwd)] + [
                s.run(torch.func.hessian(lambda x: (x.sin() * x.exp()).sum()), x)]


@case("6.12", moves=False)
def func_jvp(s: Subject) -> Any:
    """torch.func.jvp and linearize"""
    x, v = s.tensor(), s.tensor()
    out, tangent = s.run(lambda x: torch.func.jvp(_deep, (x,), (v,)), x)
    return out, tangent, s.run(lambda x: torch.func.linearize(_deep, x)[1](v), x)


@case("6.12")
def forward_mode(s: Subject) -> Any:
    """forward mode over a graph that is kept for backward"""
    import torch.autograd.forward_ad as forward_ad
    x, v = s.leaf(), s.tensor()
    with forward_ad.dual_level():
        out = s.run(_deep, forward_ad.make_dual(x, v))
        primal, tangent = forward_ad.unpack_dual(out)
        (primal + tangent).sum().backward()
    return x.grad


@case("6.12", moves=False)
def traced_by_make_fx(s: Subject) -> Any:
    """make_fx traces a forward and a backward inside"""
    from torch.fx.experimental.proxy_tensor import make_fx

    def step(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(_deep(x).sum(), x)[0]
    return s.run(lambda x: make_fx(step)(x)(x), s.leaf(8, 8))


@case("pytorch#116221 6.12")
def compiled_inside(s: Subject) -> Any:
    """a compiled function inside"""
    function = _compiled(_deep)
    x = s.leaf()
    s.run(lambda x: function(x.exp()).cos(), x).sum().backward()
    return x.grad


@case("pytorch#113263 6.12")
def compiled_around(s: Subject) -> Any:
    """a compiled function that enters the system"""
    x = s.leaf()
    out = _compiled(lambda x: s.system.call(_deep, x * 2).cos())(x)
    s.settle()
    out.sum().backward()
    return x.grad


@case("pytorch#147565 6.12")
def compiled_checkpoint_inside(s: Subject) -> Any:
    """a checkpoint in a compiled function inside"""
    function = _compiled(lambda x: checkpoint(_deep, x * 2, use_reentrant=False).cos())
    x = s.leaf()
    s.run(lambda x: function(x.exp()).sin(), x).sum().backward()
    return x.grad


@case("pytorch#116221 6.3")
def compiled_retained(s: Subject) -> Any:
    """a compiled function, backward twice"""
    function = _compiled(_deep)
    x = s.leaf()
    out = s.run(lambda x: function(x.exp()), x)
    out.sum().backward(retain_graph=True)
    s.settle()
    out.square().sum().backward()
    return x.grad


@case("6.12")
def compiled_backward(s: Subject) -> Any:
    """compiled autograd runs the backward"""
    from torch._dynamo import compiled_autograd
    torch.compiler.reset()
    x = s.leaf()
    out = s.run(lambda x: (x * 2).sin().cos(), x)
    with compiled_autograd._enable(torch.compile(backend="eager")):
        out.sum().backward()
    return x.grad


@case("6.12", moves=False)
def compiled_blocks(s: Subject) -> Any:
    """a model whose blocks are compiled one by one, trained two steps"""
    torch.compiler.reset()
    net = s.module(torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.GELU())
                                         for _ in range(2))))
    for block in net:
        block.compile(backend="aot_eager")
    for _ in range(2):
        s.run(net, s.tensor()).square().mean().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= parameter.grad
    return list(net.parameters())
