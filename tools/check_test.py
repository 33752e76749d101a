# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`make check` runs every check there is."""

import importlib
import inspect
import pathlib
import unittest
from collections.abc import Callable

import check


def required(function: Callable[..., object]) -> list[str]:
    """Parameters without a default: one that has some checks other things than the tree."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.default is inspect.Parameter.empty]


class EveryCheck(unittest.TestCase):
    def test_each_tool_that_checks_the_tree_is_called(self) -> None:
        called = {function.__module__ for function in (check.FAST | check.SLOW).values()}
        self.assertIn("check_locks", called)
        for path in pathlib.Path(__file__).parent.glob("check_*.py"):
            of_the_tree = getattr(importlib.import_module(path.stem), "check", None)
            if inspect.isfunction(of_the_tree) and not required(of_the_tree):
                self.assertIn(path.stem, called)


if __name__ == "__main__":
    unittest.main()
