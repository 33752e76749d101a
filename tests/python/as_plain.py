# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Cases that run plainly first, and then in a session whose other tensors push what is kept off the device."""

from collections.abc import Callable
from typing import Any

import spillway
import torch

import same_bits

ROWS = 512  # a tensor of 1 MiB
BUDGET = "12MiB"
Body = Callable[[torch.Tensor, Callable[[], None]], Any]


def push() -> None:
    """Pushes what can leave off the device: more than the budget is saved, and let go of."""
    x = torch.ones(ROWS, ROWS, requires_grad=True)
    for _ in range(12):
        x = (x * 1.01).sin()


class AsPlain(same_bits.Case):
    def as_plain(self, body: Body, moved: bool = True, **options: Any) -> spillway.Session:
        """`body(leaf, push)` gives the same with nothing moved and with all that can moved."""
        def run(push_out: Callable[[], None]) -> Any:
            return body(same_bits.noise(ROWS, ROWS).requires_grad_(), push_out)

        expected = run(push)
        session = self.open(torch.nn.Linear(2, 2), BUDGET, **options)
        with session:
            found = run(push)
        self.assertEqual(found, expected)
        if moved:
            self.assertGreater(session.report()["stored_bytes"], 0)
        return session
