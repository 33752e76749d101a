# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A small model that is trained plainly before each case, which compares with the bits of that."""

import spillway
import torch

import same_bits
from same_bits import BUILD, bits

__all__ = ["BUILD", "WIDTH", "Train", "batch", "bits", "model"]

WIDTH = 256


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]
    return torch.nn.Sequential(*layers)


def batch(step: int) -> torch.Tensor:
    return torch.randn(1024, WIDTH, generator=torch.Generator().manual_seed(step))


class Train(same_bits.Case):
    def setUp(self):
        super().setUp()
        self.plain = self.trained(model())

    def open(self, net: torch.nn.Module, budget: int | str = "12MiB", **options) -> spillway.Session:
        return super().open(net, budget, **options)

    @staticmethod
    def trained(net, step=lambda net, x: net(x).square().mean().backward(), steps=2) -> list[str]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for number in range(steps):
            step(net, batch(number))
            optimizer.step()
            optimizer.zero_grad()
        return bits(net.parameters())
