# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The error of what was written in place after it was saved names what plain autograd names."""

import unittest
from collections.abc import Callable

import torch

import same_bits

ROWS = 128


def operator_on_a_view(x: torch.Tensor) -> torch.Tensor:
    base = x * 1.0
    base[5:].sigmoid_()
    base.add_(1)
    return base.sum()


def operator_on_views_of_a_view(x: torch.Tensor) -> torch.Tensor:
    base = x * 1.0
    base.t()[5:].exp_()
    base[:7].tanh_()
    base.mul_(2)
    return (base * base).sum()


def operator_on_a_whole_tensor(x: torch.Tensor) -> torch.Tensor:
    whole = (x * 1.0).sigmoid_()
    loss = whole.sum()
    whole.detach().add_(1)
    return loss


class WrittenInPlace(same_bits.Case):
    def words(self, body: Callable[[torch.Tensor], torch.Tensor]) -> str:
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation") as raised:
            body(same_bits.noise(ROWS, ROWS).requires_grad_()).backward()
        return str(raised.exception)

    def test_an_operator_in_place_is_named(self):
        for body in (operator_on_a_view, operator_on_views_of_a_view, operator_on_a_whole_tensor):
            with self.subTest(body=body.__name__):
                plain = self.words(body)
                self.assertIn("which is output 0 of ", plain)
                with self.open(torch.nn.Linear(2, 2), "8MiB", min_tensor_bytes=1) as session:
                    self.assertEqual(self.words(body), plain)
                session.close()


if __name__ == "__main__":
    unittest.main()
