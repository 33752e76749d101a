# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A model whose layers are 1 MiB each, and a loss."""

import torch

import same_bits

WIDTH = 512  # a layer of 1 MiB


def model(layers: int = 6) -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))


def loss_of(net: torch.nn.Module) -> torch.Tensor:
    return net(same_bits.noise(64, WIDTH)).square().mean()
