# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""docs/semantics.md is what a fresh run gives, Spillway passes all, and the suite can see a failure."""

import os
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "semantics"))

import run
import suite
import systems
import table
import torch
from case import CRASH, HANG, IDLE, LOUD, MEMORY, NONE, OLD, PASS, WRONG, Outcome, System
from torch.autograd.graph import saved_tensors_hooks


# What Spillway does not do as plain autograd does: torch allows one pair of hooks on a saved tensor, and in a
# session it is Spillway's.
KNOWN = {"hooks_of_one_saved_tensor", "requires_grad_since_the_save"}


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.todo, cls.found, _ = run.columns(list(run.CHECKED))

    def test_the_page_is_what_a_fresh_run_gives(self):
        self.assertEqual(table.differences(run.PAGE.read_text(), self.todo, self.found), [])

    def test_plain_autograd_passes_and_spillway_all_but_what_is_known(self):
        failing = {each for name in run.CHECKED for each, cell in self.found[name].items() if cell.kind not in (PASS, NONE)}
        self.assertEqual(failing, KNOWN)
        self.assertGreater(sum(each.kind == PASS for each in self.found["spillway"].values()), 200)

    def test_what_operators_can_make_again_is_dropped_in_many(self):
        self.assertGreater(sum(each.kind == PASS for each in self.found["spillway_made_again"].values()), 114)

    def test_the_late_accelerator_poses_nearly_all(self):
        if not systems.LATE_LIBRARY.exists():
            self.skipTest(f"the late accelerator is not built here: {systems.LATE_LIBRARY}")
        self.assertGreater(sum(each.kind == PASS for each in self.found["spillway_late"].values()), 195)

    def test_a_case_that_is_posed_no_more_is_seen(self):
        found = {name: dict(self.found[name]) for name in ("plain", "spillway")}
        found["spillway"]["gradients"] = Outcome(NONE, "not today")
        self.assertRegex(table.differences(run.PAGE.read_text(), self.todo, found)[0], "says pass, a fresh run n/a")

    def test_whether_a_case_applies_may_vary_where_times_choose(self):
        name = "spillway_made_again"
        found = {each: dict(self.found[each]) for each in ("plain", name)}
        found[name]["gradients"] = Outcome(NONE, "not today")
        self.assertEqual(table.differences(run.PAGE.read_text(), self.todo, found), [])
        found[name]["gradients"] = Outcome(WRONG, "")
        self.assertEqual(len(table.differences(run.PAGE.read_text(), self.todo, found)), 1)

    def test_a_changed_cell_is_seen(self):
        plain = {"plain": self.found["plain"]}
        text = table.page(self.todo, plain, {"plain": torch.__version__})
        self.assertEqual(table.differences(text, self.todo, plain), [])
        wrong = text.replace("| raises | pass |", "| raises | loud |", 1)
        self.assertRegex(table.differences(wrong, self.todo, plain)[0], "page says loud, a fresh run pass")
        self.assertRegex(table.differences("", self.todo, plain)[0], "the page says nothing")


class Off(System):
    """Hands back what it was given, a little larger."""
    name = "off"

    def region(self) -> Any:
        return saved_tensors_hooks(lambda t: t, lambda t: t * 1.5 if t.is_floating_point() else t)


class Unchecked(System):
    """Hands back what it was given, whether or not it was written; or a copy."""
    name = "unchecked"

    def region(self) -> Any:
        return saved_tensors_hooks(lambda t: t.clone(), lambda t: t)


class Keeping(System):
    """Lets nothing go."""
    name = "keeping"
    kept: list[torch.Tensor] = []

    def region(self) -> Any:
        return saved_tensors_hooks(
            lambda t: (self.kept.append(t.detach().clone()), t.detach())[1], lambda t: t)


class Refusing(System):
    name = "refusing"

    def call(self, *_: Any, **__: Any) -> Any:
        raise ValueError("not today")


class Idle(System):
    name = "idle"

    def moved_bytes(self) -> int:
        return 0


class Dying(System):
    """Dies in its second case, or hangs."""
    name = "dying"

    def call(self, function: Any, *inputs: Any, **named: Any) -> Any:
        if self.cases == 1 and os.environ.get("SEMANTICS_HANG"):
            time.sleep(60)
        if self.cases == 1:
            os.abort()
        return super().call(function, *inputs, **named)

    cases = 0

    def end(self, passed: bool) -> None:
        self.cases += 1


class Harness(unittest.TestCase):
    def column(self, kind: type[System], *names: str) -> list[str]:
        todo = [each for each in suite.cases() if each.name in names]
        suite.prepare()
        log = run.scratch() / "semantics-harness.log"
        with tempfile.TemporaryDirectory(dir=run.scratch()) as folder:
            found, _ = suite.column(kind, todo, folder, log)
        return [found[name].kind for name in names]

    def test_wrong_bits_are_seen(self):
        self.assertEqual(self.column(Off, "gradients", "forward_result"), [WRONG, PASS])

    def test_an_error_that_is_not_raised_is_seen(self):
        self.assertEqual(self.column(Unchecked, "write_after_save", "write_through_data", "gradients"),
                         [OLD, WRONG, PASS])

    def test_memory_that_is_held_is_seen(self):
        self.assertEqual(self.column(Keeping, "graph_dropped", "parameters_not_copied"), [MEMORY, PASS])

    def test_a_refusal_is_loud(self):
        self.assertEqual(self.column(Refusing, "gradients", "write_after_save"), [LOUD, LOUD])

    def test_moving_nothing_is_seen(self):
        self.assertEqual(self.column(Idle, "gradients", "write_small"), [IDLE, PASS])

    def test_a_crash_and_a_hang_are_one_cell(self):
        names = ("forward_result", "retain_twice", "double_backward")
        self.assertEqual(self.column(Dying, *names), [PASS, CRASH, PASS])
        log = run.scratch() / "semantics-harness.log"
        log.unlink(missing_ok=True)
        with unittest.mock.patch.object(suite, "HANG_SECONDS", 10.0), \
                unittest.mock.patch.dict(os.environ, {"SEMANTICS_HANG": "1"}):
            self.assertEqual(self.column(Dying, *names), [PASS, HANG, PASS])
        self.assertRegex(log.read_text(), r'semantics_test.py", line \d+ in call', "where it stands")


if __name__ == "__main__":
    unittest.main()
