# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The same of PyTorch's databases where nothing can move: what has a recipe is dropped before each backward and made
again. Each operator gets what another one made and saved, and its results are saved, so that it is run again itself."""

import unittest
from typing import Any

import operators_test
import torch


def is_wanted(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and tensor.layout is torch.strided and type(tensor) is torch.Tensor


def in_a_chain(body: operators_test.Body) -> operators_test.Body:
    def chain(leaves: list[torch.Tensor]) -> Any:
        given = [leaf.clone() if leaf.requires_grad else leaf for leaf in leaves]
        result = body(given)
        return result, [each.sin() for each in (*given, *operators_test.tensors(result)) if is_wanted(each)]
    return chain


class MadeAgain(operators_test.Databases):
    samples = operators_test.SAMPLES if operators_test.ALL else 1
    options = {"nvme": None}

    def setUp(self) -> None:
        super().setUp()
        with self.session:  # far below the budget no recipe is made
            self.fill = torch.empty(operators_test.BUDGET // 2, dtype=torch.uint8)
        self.made_again: set[str] = set()

    def compare(self, name: str, body: operators_test.Body, leaves: list[torch.Tensor]) -> None:
        before = self.session.report()["recomputed_values"]
        super().compare(name, in_a_chain(body), leaves)
        if self.session.report()["recomputed_values"] > before:
            self.made_again.add(name.partition(" torch.")[0].partition(" training")[0])

    def check_left(self, report: Any) -> None:
        print(f"{report['recomputed_values']} tensors of {len(self.made_again)} made again", flush=True)
        self.assertEqual(report["stored_bytes"], 0)
        self.assertGreater(len(self.made_again), self.least[0] // 5 if "operator" in self.id() else self.least[1] // 2)


if __name__ == "__main__":
    unittest.main()
