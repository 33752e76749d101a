# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Nothing is held once a graph is gone, whatever way it went."""

from typing import Any

import torch
from case import MEMORY, Subject, Watch, case


def _deep(x: torch.Tensor) -> torch.Tensor:
    """No node of it saves its own output: that is a case of its own."""
    return (x.sin() * x.cos()).sin().square().cos()


@case("6.4 trl#5700", wrong=MEMORY)
def graph_dropped(s: Subject) -> Any:
    """a graph whose backward never runs"""
    watch = Watch(s)
    x = s.leaf()
    out = watch.graph(s.run(_deep, x))
    del out, x
    watch.expect_released()


@case("6.4 trl#5700 axolotl#3638", wrong=MEMORY)
def unused_branch_dropped(s: Subject) -> Any:
    """a branch whose backward never runs, after the other one's ran"""
    watch = Watch(s)
    x = s.leaf()
    used, unused = s.run(lambda x: (x.sin().cos(), x.cos().sin().square()), x)
    unused = watch.graph(unused)
    used.sum().backward()
    del used, unused, x
    watch.expect_released()


@case("6.4", wrong=MEMORY)
def freed_by_backward(s: Subject) -> Any:
    """backward frees what was saved, while the output still lives"""
    watch = Watch(s)
    x = s.leaf()
    out = s.run(_deep, x).sum()
    out.backward()
    x.grad = None
    del x
    watch.expect_released(spare_bytes=160 << 10)  # the leaf is the graph's
    return out


@case("6.2 pytorch#189025", wrong=MEMORY)
def own_output_dropped(s: Subject) -> Any:
    """nodes that save their own output, dropped without a backward"""
    watch = Watch(s)
    x = s.leaf()
    out = watch.graph(s.run(lambda x: x.exp().sigmoid().tanh(), x))
    del out, x
    watch.expect_released()


@case("6.2 pytorch#189025", wrong=MEMORY)
def own_output_retained(s: Subject) -> Any:
    """the same after a backward that retains"""
    watch = Watch(s)
    x = s.leaf()
    out = watch.graph(s.run(lambda x: x.exp().sigmoid().tanh(), x))
    out.sum().backward(retain_graph=True)
    del out, x
    watch.expect_released()


@case("6.2 6.11", wrong=MEMORY)
def functions_own_output_dropped(s: Subject) -> Any:
    """a custom Function that saves its output, dropped without a backward"""
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * ctx.saved_tensors[0]
    watch = Watch(s)
    x = s.leaf()
    out = watch.graph(s.run(lambda x: Exp.apply((x * 2).sin()), x))
    del out, x
    watch.expect_released()


@case("6.4", wrong=MEMORY)
def double_backward_dropped(s: Subject) -> Any:
    """a graph of a gradient, dropped"""
    watch = Watch(s)
    x = s.leaf()
    out = watch.graph(s.run(_deep, x))
    (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    grad = watch.graph(grad)
    del out, grad, x
    watch.expect_released()


@case("6.14", wrong=MEMORY)
def dropped_by_an_error(s: Subject) -> Any:
    """a forward that raised holds nothing"""
    watch = Watch(s)

    def forward(x: torch.Tensor) -> torch.Tensor:
        watch.graph(_deep(x))
        raise KeyError("boom")
    try:
        s.run(forward, s.leaf())
    except KeyError:
        pass
    s.run(_deep, s.leaf()).sum().backward()
    watch.expect_released()


@case("6.14 trl#4280", wrong=MEMORY)
def dropped_by_an_error_in_backward(s: Subject) -> Any:
    """a backward that raised in the middle holds nothing"""
    watch = Watch(s)

    def fail(_: torch.Tensor) -> torch.Tensor:
        raise KeyError("boom")

    def forward(x: torch.Tensor) -> torch.Tensor:
        middle = x.sin().cos()
        middle.register_hook(fail)
        return middle.sin().square()
    x = s.leaf()
    out = watch.graph(s.run(forward, x))
    try:
        out.sum().backward()
    except KeyError:
        pass
    del out, x
    watch.expect_released()


@case("trl#5700 trl#5730 6.4", wrong=MEMORY)
def thirty_steps_of_unused_branches(s: Subject) -> Any:
    """thirty steps, each with a branch whose backward never runs: nothing grows"""
    net = s.module(torch.nn.ModuleList(torch.nn.Linear(128, 128) for _ in range(4)))
    watch = Watch(s)
    for number in range(30):
        x = s.leaf()
        parts = s.run(lambda x: tuple(expert(x.sin()).sin().cos() for expert in net), x)
        parts[number % 4].sum().backward()
        net.zero_grad()
        del parts, x
    watch.expect_released()


@case("RL#2279 6.12")
def forward_without_grad(s: Subject) -> Any:
    """a pass without gradients comes first, and again between steps"""
    net = s.module(torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)))
    results = []
    for _ in range(2):
        with torch.no_grad():
            results.append(s.run(net, s.tensor()))
        out = s.run(net, s.leaf())
        out.square().mean().backward()
        results.append(out)
    return results, [p.grad for p in net.parameters()]


@case("RL#2279", moves=False, wrong=MEMORY)
def nothing_saved_without_grad(s: Subject) -> Any:
    """a pass without gradients saves nothing"""
    watch = Watch(s)
    with torch.no_grad():
        out = s.run(_deep, s.tensor())
    watch.expect_released(spare_bytes=160 << 10)
    return out.requires_grad


@case("6.15", wrong="memory: a parameter was copied", moves=False)
def parameters_not_copied(s: Subject) -> Any:
    """a parameter that is saved is handed back itself, not a copy"""
    net = s.module(torch.nn.Linear(128, 256, bias=False))
    seen: list[bool] = []
    x = s.leaf(16, 128)
    out = s.run(lambda x: _Look.apply(x, net.weight, seen, net.weight.data_ptr()), x)
    out.sum().backward()
    return seen


@case("6.10", wrong="memory: a parameter was copied", moves=False)
def views_of_parameters_not_copied(s: Subject) -> Any:
    """a parameter's .t() and a slice of it, saved, are views of the parameter"""
    net = s.module(torch.nn.Linear(128, 256, bias=False))
    seen: list[bool] = []
    x = s.leaf(16, 128)

    def forward(x: torch.Tensor) -> torch.Tensor:
        address = net.weight.data_ptr()
        return _Look.apply(x, net.weight.t(), seen, address) + _Look.apply(x, net.weight[:128], seen, address)
    s.run(forward, x).sum().backward()
    return seen


class _Look(torch.autograd.Function):
    """Notes whether the saved weight comes back at the address where it was."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, seen: list[bool],
                address: int) -> torch.Tensor:
        ctx.save_for_backward(weight)
        ctx.seen, ctx.address = seen, address
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (weight,) = ctx.saved_tensors
        ctx.seen.append(weight.data_ptr() == ctx.address)
        return grad, torch.zeros_like(weight), None, None
