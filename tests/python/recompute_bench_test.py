# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-recompute: that it runs, compares bit by bit, and what its rows say of runs that are made up.

The times of its own run say nothing here: the model is tiny, and the machine busy.
"""

import copy
import sys
import unittest

import quick_bench
from quick_bench import BENCH

sys.path.insert(0, str(BENCH))
import recompute  # noqa: E402: it lies in bench/

MODEL = "gpt2-sdpa-nodrop"


class Quick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done, cls.line = quick_bench.run("recompute.py", "--only", MODEL)
        cls.detail = cls.line["detail"]
        cls.model = cls.detail["models"][MODEL]
        [cls.row] = cls.detail["rows"]

    def test_the_line_judges_no_time_of_one_round(self):
        self.assertEqual(set(self.line), {"name", "value", "unit", "bar", "holds", "unsteady", "detail"})
        self.assertEqual((self.line["name"], self.line["bar"]), ("recompute", 1.0))
        self.assertEqual((self.line["value"], self.line["unsteady"]), (None, True))
        self.assertEqual(self.detail["rounds"], {MODEL: 1})

    def test_it_has_plains_bits_and_nothing_else_is_wrong(self):
        self.assertEqual(set(self.model["bits_equal"].values()), {True})
        self.assertLessEqual({"plain again", "held", "smallest", "search"}, set(self.model["bits_equal"]))
        self.assertEqual(self.detail["faults"], [])
        self.assertTrue(self.line["holds"])
        self.assertEqual(self.done.returncode, 0)

    def test_the_smallest_peak_is_below_plains_and_tensors_were_made_again_for_it(self):
        self.assertLess(self.row["smallest_share"], 0.95)
        self.assertGreater(self.row["again"], 0)
        self.assertGreater(self.row["operators"], 0)
        self.assertLess(self.model["base_bytes"], self.model["budget_bytes"]["smallest"])

    def test_a_row_has_every_number(self):
        self.assertLessEqual(set(recompute.COLUMNS), set(self.row))
        for name in ("saved_mb", "peak_mb", "smallest_mb", "over_plain", "over_held", "wall_over_plain", "step_s"):
            self.assertGreater(self.row[name], 0, name)
        self.assertIn(f"\n| {MODEL} | ", self.done.stdout)


def round_of(at_share_s: float | None) -> dict:
    """Plain takes 1 s, the smallest budget 1.5 s."""
    def run(seconds: float, again: int = 0) -> dict:
        return {"step_s": seconds, "cpu_s": seconds, "peak_bytes": 60, "saved_bytes": 100, "stored_bytes": 0,
                "recomputed_bytes": again, "recomputed_operators": again, "recompute_ns": again}
    found = {"plain": run(1.0), "plain again": run(1.0), "held": run(1.0), "smallest": run(1.5, 60)}
    return found if at_share_s is None else found | {"at_share": run(at_share_s, 40)}


def measured(at_share_s: float | None, count: int = 5) -> dict:
    budgets = {"smallest": 60} | ({} if at_share_s is None else {"at_share": 65})
    return {"base_bytes": 10, "peak_bytes": 110, "share_bytes": 65, "saved_bytes": 100, "budget_bytes": budgets,
            "rounds": [round_of(at_share_s)] * count, "plain_over_plain": [1.0] * count,
            "bits_equal": {"smallest": True, "search": True}}


class Rows(unittest.TestCase):
    """Of runs that are made up; the experiment's step was 1.05 of plain's."""

    def test_peaks_are_beyond_what_was_there_before_the_step(self):
        row = recompute.row_of(MODEL, measured(1.05))
        self.assertEqual((row["smallest_share"], row["over_plain"], row["again"]), (0.5, 1.5, 0.6))
        self.assertEqual((row["at_share_over_plain"], row["at_share_again"]), (1.05, 0.4))

    def test_as_quick_as_the_experiment(self):
        row = recompute.row_of(MODEL, measured(1.05))
        self.assertEqual((row["at_share_over_first"], recompute.verdict(row)), (1.0, ""))

    def test_slower_than_the_experiment(self):
        row = recompute.row_of(MODEL, measured(1.06))
        self.assertEqual(recompute.verdict(row), "slower than the experiment")

    def test_too_few_rounds_are_not_judged(self):
        row = recompute.row_of(MODEL, measured(1.06, count=3))
        self.assertEqual(recompute.verdict(row), "unsteady")

    def test_a_peak_that_is_not_reached_is_a_fault(self):
        found = measured(None)
        row = recompute.row_of(MODEL, found)
        self.assertEqual(recompute.verdict(row), "above the experiment's peak")
        self.assertEqual(recompute.faults_of(MODEL, found, quick=False), [f"{MODEL}: does not reach the experiment's peak"])
        self.assertIn(" | - | ", recompute.table([row]))

    def test_what_is_wrong_is_named(self):
        fine = measured(1.0)
        self.assertEqual(recompute.faults_of("m", fine, quick=False), [])
        changes = {
            "m, search: not plain's bits": lambda run: run["bits_equal"].update(search=False),
            "m, smallest: above its budget": lambda run: run["rounds"][0]["smallest"].update(peak_bytes=61),
            "m, at_share: moved something": lambda run: run["rounds"][0]["at_share"].update(stored_bytes=1)}
        for fault, change in changes.items():
            wrong = copy.deepcopy(fine)
            change(wrong)
            self.assertEqual(recompute.faults_of("m", wrong, quick=False), [fault])


if __name__ == "__main__":
    unittest.main()
