# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A small model that is trained plainly before each case, which compares with the bits of that."""

import contextlib
import os
import pathlib
import shutil
import tempfile
import unittest

import spillway
import torch

BUILD = pathlib.Path(os.environ["SPILLWAY_BINARY_DIR"])
WIDTH = 256


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]
    return torch.nn.Sequential(*layers)


def batch(step: int) -> torch.Tensor:
    return torch.randn(1024, WIDTH, generator=torch.Generator().manual_seed(step))


def bits(tensors) -> list[bytes]:
    return [tensor.detach().numpy().tobytes() for tensor in tensors]


class Train(unittest.TestCase):
    def setUp(self):
        scratch = BUILD / "scratch"
        scratch.mkdir(exist_ok=True)
        self.folder = tempfile.mkdtemp(dir=scratch)
        self.addCleanup(shutil.rmtree, self.folder)
        self.sessions: list[spillway.Session] = []
        self.plain = self.trained(model())

    def open(self, net: torch.nn.Module, budget: int | str = "12MiB", **options) -> spillway.Session:
        options.setdefault("nvme", self.folder)
        session = spillway.session(net, device_budget=budget, **options)
        self.sessions.append(session)
        return session

    def tearDown(self):
        """A session that a failing case leaves open would cap the next one."""
        for session in self.sessions:
            with contextlib.suppress(spillway.StateError):
                session.close()

    @staticmethod
    def trained(net, step=lambda net, x: net(x).square().mean().backward(), steps=2) -> list[bytes]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for number in range(steps):
            step(net, batch(number))
            optimizer.step()
            optimizer.zero_grad()
        return bits(net.parameters())
