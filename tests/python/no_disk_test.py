# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Budgets where nothing can move: tensors are made again, or stay."""

import unittest

import spillway
import torch
from torch import nn

MIB = 2**20
WIDTH, ROWS, BLOCKS = 128, 2048, 8


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


class NoDisk(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.input = torch.randn(ROWS, WIDTH)

    def trains(self, mib: int, optimizer: type[torch.optim.Optimizer]) -> bool:
        """Three steps: the second is the first beside the optimizer's state."""
        model = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        update = optimizer(model.parameters(), lr=1e-3)
        session = spillway.session(model, device_budget=mib * MIB)
        try:
            for _ in range(3):
                with session:
                    loss = model(self.input).square().mean()
                loss.backward()
                del loss
                update.step()
                update.zero_grad()
        except torch.OutOfMemoryError:
            return False
        finally:
            session.close()
        return True

    def test_what_trains_trains_in_a_larger_budget_too(self):
        for optimizer, enough in ((torch.optim.SGD, (30, 32, 35)), (torch.optim.AdamW, (35, 37, 39, 40, 42, 60))):
            with self.subTest(optimizer=optimizer.__name__):
                self.assertFalse(self.trains(24, optimizer))
                for mib in enough:
                    self.assertTrue(self.trains(mib, optimizer), mib)

    def test_a_refusal_says_that_nothing_can_move(self):
        model = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        session = spillway.session(model, device_budget=24 * MIB)
        self.addCleanup(session.close)
        with self.assertRaisesRegex(torch.OutOfMemoryError,
                                    r"there is no host or NVMe budget to move anything to \(give an NVMe folder, nvme=, or host_budget=\)\. "
                                    r"spillway\.fit\(model, step\) tells"):
            with session:
                loss = model(self.input).square().mean()
            loss.backward()
        self.assertEqual(session.last_refusal["why"], "no_pool")


if __name__ == "__main__":
    unittest.main()
