# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Whole steps of training: losses and parameters are plain autograd's bits."""

from typing import Any

import torch
from case import Subject, case


def _net(s: Subject) -> torch.nn.Module:
    return s.module(torch.nn.Sequential(
        torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 128)))


def _steps(s: Subject, net: torch.nn.Module, optimizer: torch.optim.Optimizer, *rows: int) -> Any:
    losses = []
    for count in rows:
        loss = s.run(lambda x: net(x).square().mean(), s.tensor(count, 128))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
    return losses, list(net.parameters())


@case("accelerate#3770 OLMo#478")
def five_steps(s: Subject) -> Any:
    """five steps of SGD with momentum"""
    net = _net(s)
    return _steps(s, net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), 256, 256, 256, 256, 256)


@case("accelerate#3770")
def steps_of_adam(s: Subject) -> Any:
    """three steps of AdamW with clipped gradients"""
    net = _net(s)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)

    def clip(*_: Any) -> None:
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    optimizer.register_step_pre_hook(clip)
    return _steps(s, net, optimizer, 256, 256, 256)


@case("5.9 TransformerEngine 2.5")
def other_shapes_each_step(s: Subject) -> Any:
    """another batch size each step"""
    net = _net(s)
    return _steps(s, net, torch.optim.SGD(net.parameters(), lr=0.1), 300, 17, 512, 1, 256, 300)


@case("6.29")
def accumulated_gradients(s: Subject) -> Any:
    """gradients accumulated over four micro-batches"""
    net = _net(s)
    for _ in range(4):
        (s.run(lambda x: net(x).square().mean(), s.tensor()) / 4).backward()
    return [p.grad for p in net.parameters()]


@case("axolotl#2927")
def adapters(s: Subject) -> Any:
    """frozen weights with trained adapters (LoRA)"""
    base = s.module(torch.nn.Linear(128, 256)).requires_grad_(False)
    down, up = s.leaf(128, 8), s.leaf(8, 256)
    x = s.tensor(512, 128)
    out = s.run(lambda x: (base(x) + x @ down @ up).tanh().square(), x)
    out.mean().backward()
    return down.grad, up.grad, base.weight.grad is None


@case("trl#5700 6.4")
def experts(s: Subject) -> Any:
    """experts of which some get no rows"""
    net = s.module(torch.nn.ModuleList(torch.nn.Linear(128, 128) for _ in range(4)))

    def forward(x: torch.Tensor) -> torch.Tensor:
        chosen = (x[:, 0] > 0).long() * 2
        out = torch.zeros_like(x)
        for number, expert in enumerate(net):
            rows = (chosen == number).nonzero().squeeze(1)
            out = out.index_add(0, rows, expert(x[rows].sin()).exp())
        return out
    s.run(forward, s.leaf(512, 128)).square().mean().backward()
    return [p.grad for p in net.parameters()]


@case("trl#4236")
def same_leaf_in_many_graphs(s: Subject) -> Any:
    """one weight in eight graphs that live at once"""
    weight = s.leaf(128, 128)
    outs = s.run(lambda *xs: tuple((x.sin() @ weight).exp() for x in xs), *(s.tensor() for _ in range(8)))
    for out in reversed(outs):
        out.mean().backward()
    return weight.grad


@case("8.3 6.4")
def step_after_a_dropped_one(s: Subject) -> Any:
    """a forward whose loss is thrown away, then a step"""
    net = _net(s)
    s.run(lambda x: net(x).square().mean(), s.leaf())
    return _steps(s, net, torch.optim.SGD(net.parameters(), lr=0.1), 256, 256)


@case("5.14")
def closure_of_lbfgs(s: Subject) -> Any:
    """an optimizer that runs forward and backward many times in a step"""
    net = s.module(torch.nn.Linear(128, 64))
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    x = s.tensor(512, 128)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = s.run(lambda x: net(x.sin()).exp().square().mean(), x)
        loss.backward()
        return loss
    optimizer.step(closure)
    return list(net.parameters())
