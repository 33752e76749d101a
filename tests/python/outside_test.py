# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What is allocated outside the session: it does not count, and `explain` says so."""

import unittest

import torch
from same_bits import Case, noise

BATCH_BYTES = 4096 * 512 * 4


class Outside(Case):
    def train(self, inside: bool) -> tuple[int, str]:
        model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(3)))
        session = self.open(model, "1TiB")
        batch = noise(4096, 512)
        with session:
            if inside:
                batch = batch.clone()
            loss = model(batch).square().mean()
        loss.backward()
        return session.report()["device_peak_bytes"], session.explain()

    def test_a_batch_counts_where_it_was_made(self):
        (outside, says), (inside, says_not) = self.train(False), self.train(True)
        self.assertEqual(inside - outside, BATCH_BYTES)
        self.assertIn("kept: allocated outside the session", says)
        self.assertNotIn("outside the session", says_not)


if __name__ == "__main__":
    unittest.main()
