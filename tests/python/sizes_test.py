# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Budgets and other sizes as people write them."""

import os
import unittest
from unittest import mock

import spillway
import torch

import same_bits
from layers import WIDTH, loss_of, model


class Sizes(same_bits.Case):
    def test_what_is_no_budget_is_refused_in_one_clear_line(self):
        for budget, words in ((None, "such as '16GiB'"), (0, "such as '16GiB'"), ("", "such as '16GiB'"),
                              ("0", "such as '16GiB'"), (0.5, "write '50%'"), (1.0, "write '100%'"), (1e9 + 0.5, "write 1000000000"),
                              (True, "got True"), ("120%", "at most 100%"), ("8 apples", "not a size")):
            with self.subTest(budget=budget), self.assertRaises(spillway.OptionError) as refused:
                self.open(model(1), budget)
            self.assertIn(words, str(refused.exception))
            self.assertEqual(refused.exception.option, "device_budget")

    def test_all_common_spellings_of_sizes(self):
        for text in ("8g", "8G", "8gb", "8 GB", "8GiB", "8gib", "8 gib", "8Gi", "8192m", "8192MiB"):
            with self.subTest(text):
                session = self.open(model(1), text)
                expected = 8_000_000_000 if "b" in text.lower() and "i" not in text.lower() else 8 << 30
                self.assertAlmostEqual(session.report()["device_limit_bytes"], expected, delta=1 << 12)
                session.close()

    def test_whole_floats_are_bytes(self):
        session = self.open(model(1), 1e9)
        self.assertAlmostEqual(session.report()["device_limit_bytes"], 1_000_000_000, delta=1 << 12)

    def test_a_home_folder(self):
        with mock.patch.dict(os.environ, {"HOME": self.folder}):
            session = self.open(model(1), "8MiB", nvme="~")
            with session:
                loss_of(session._model).backward()

    def test_the_smallest_tensor_that_may_leave(self):
        for least, moves in ((1, True), ("4KiB", True), ("1MiB", False), (None, False)):
            net = model(1)
            session = self.open(net, 1_200_000, min_tensor_bytes=least, nvme_budget="16MiB")
            kept = []
            with session:
                x = torch.ones(8, WIDTH, requires_grad=True)  # 16 KiB
                for _ in range(4):
                    x = x.sin()
            kept.append(x)
            self.assertEqual(session.report()["saved_values"] > 0, moves, least)
            session.close()


if __name__ == "__main__":
    unittest.main()
