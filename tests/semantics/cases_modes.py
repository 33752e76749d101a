# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Autocast, inference mode, random numbers, and operators that save unusual things."""

from typing import Any

import torch
from case import Subject, case


def _deep(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.cos()).exp().tanh().sigmoid()


@case("6.10")
def autocast(s: Subject) -> Any:
    """autocast inside; its cached casts of weights are used twice"""
    net = s.module(torch.nn.Linear(128, 128))

    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(s.device.type, dtype=torch.bfloat16):
            return net(net(x.sin()).exp())
    x = s.leaf(512, 128)
    out = s.run(forward, x)
    out.float().square().mean().backward()
    return out, x.grad, net.weight.grad


@case("6.10")
def autocast_around(s: Subject) -> Any:
    """inside autocast; the cache goes before backward"""
    net = s.module(torch.nn.Linear(128, 256))
    x = s.leaf(512, 128)
    with torch.autocast(s.device.type, dtype=torch.bfloat16):
        out = s.run(lambda x: net(x.sin()).exp().tanh() + net(x).cos(), x)
    out.float().sum().backward()
    return out, x.grad, net.weight.grad


@case("6.10")
def gradient_scaler(s: Subject) -> Any:
    """a scaled loss, unscaled by GradScaler before a step"""
    net = s.module(torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(s.device.type, init_scale=256.0)
    for _ in range(2):
        with torch.autocast(s.device.type, dtype=torch.bfloat16):
            loss = s.run(lambda x: net(x).float().square().mean(), s.tensor(512, 128))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return list(net.parameters()), scaler.get_scale()


@case("6.12", raises="Inference tensors cannot be saved for backward", moves=False)
def inference_tensor_saved(s: Subject) -> Any:
    """a tensor of inference mode is needed for backward"""
    weight = s.leaf()
    with torch.inference_mode():
        made = s.tensor().sin()
    s.write(lambda: s.run(lambda weight: weight * made, weight))


@case("6.12", moves=False)
def inference_mode_inside(s: Subject) -> Any:
    """inference mode inside"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return _deep(x)
    out = s.run(forward, s.leaf())
    return out, out.is_inference(), out.requires_grad


@case("6.30")
def random_state(s: Subject) -> Any:
    """the state of random numbers after a forward and after a backward"""
    x = s.leaf()
    out = s.run(_deep, x)
    state = torch.get_rng_state()
    out.sum().backward()
    return state, torch.get_rng_state(), torch.rand(4)


@case("6.30")
def dropout(s: Subject) -> Any:
    """dropout and noise"""
    x = s.leaf()
    out = s.run(lambda x: torch.nn.functional.dropout(x.exp(), 0.5).sin() + torch.randn_like(x) * x.cos(), x)
    out.sum().backward()
    return out, x.grad, torch.rand(4)


@case("6.32")
def deterministic_algorithms(s: Subject) -> Any:
    """deterministic algorithms required"""
    x = s.leaf()
    torch.use_deterministic_algorithms(True)
    try:
        out = s.run(_deep, x)
        out.sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    return x.grad


@case("6.9")
def indices(s: Subject) -> Any:
    """gather, scatter, index_select, topk, sort, max and embedding bags"""
    x = s.leaf(512, 128)
    rows = torch.arange(512, device=s.device) * 7 % 512

    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden = x.exp().index_select(0, rows).gather(1, (rows % 128)[:, None].expand(512, 128))
        best, _ = hidden.sin().topk(16, dim=1)
        return best.sum() + hidden.cos().sort(dim=0).values[5].sum() + hidden.max(dim=1).values.sum()
    out = s.run(forward, x)
    out.backward()
    return out, x.grad


@case("8.3")
def attention(s: Subject) -> Any:
    """scaled dot-product attention with a mask, layer norm, and a loss"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        query, key, value = x.view(4, 64, 3, 4, 32).permute(2, 0, 3, 1, 4)
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out = torch.nn.functional.layer_norm(out.transpose(1, 2).reshape(4, 64, 128), (128,))
        return out.exp().logsumexp(-1)
    x = s.leaf(4, 64, 384)
    s.run(forward, x).sum().backward()
    return x.grad


@case("8.3")
def recurrent(s: Subject) -> Any:
    """an LSTM"""
    net = s.module(torch.nn.LSTM(32, 64, batch_first=True))
    x = s.leaf(16, 64, 32)
    out = s.run(lambda x: net(x.sin())[0], x)
    out.square().mean().backward()
    return out, x.grad, [p.grad for p in net.parameters()]


@case("6.11", moves=False)
def parametrised(s: Subject) -> Any:
    """a parametrised weight (weight norm)"""
    net = torch.nn.utils.parametrizations.weight_norm(s.module(torch.nn.Linear(128, 256)))
    s.system.own(net)
    x = s.leaf()
    s.run(net, x).square().mean().backward()
    return x.grad, [p.grad for p in net.parameters()]


@case("6.14")
def grad_mode_switched_inside(s: Subject) -> Any:
    """no_grad and enable_grad inside, set_grad_enabled left switched"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = x.exp().sin()
            with torch.enable_grad():
                hidden = (x * scale).tanh()
        return hidden.exp() * scale
    x = s.leaf()
    s.run(forward, x).sum().backward()
    return x.grad, torch.is_grad_enabled()
