# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-step --models: that it runs, compares bit by bit, and what its rows say of times that are made up.

The times of its own run say nothing here: the model is tiny, and the machine busy.
"""

import copy
import sys
import unittest

import quick_bench
from quick_bench import BENCH

sys.path.insert(0, str(BENCH))
import step_models  # noqa: E402: it lies in bench/


class Quick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done, cls.line = quick_bench.run("step.py", "--models", "--only", "gpt_64")
        cls.detail = cls.line["detail"]
        cls.model = cls.detail["models"]["gpt_64"]
        [cls.row] = cls.detail["rows"]

    def test_the_line_judges_no_time_of_one_round(self):
        self.assertEqual(set(self.line), {"name", "value", "unit", "bar", "holds", "unsteady", "detail"})
        self.assertEqual((self.line["name"], self.line["bar"]), ("step_models", 1.05))
        self.assertEqual((self.line["value"], self.line["unsteady"]), (None, True))
        self.assertEqual(self.detail["rounds"], {"gpt_64": 1})

    def test_it_has_plains_bits_and_nothing_else_is_wrong(self):
        self.assertIs(self.row["bits_equal"], True)
        self.assertEqual(self.detail["faults"], [])
        self.assertTrue(self.line["holds"])
        self.assertEqual(self.done.returncode, 0)

    def test_the_budget_is_the_floor_and_half_of_the_rest(self):
        floor, peak = self.model["floor_bytes"], self.model["peak_bytes"]
        self.assertLess(self.model["parameter_bytes"], floor)
        self.assertAlmostEqual(self.row["budget_bytes"], (floor + peak) / 2, delta=1)
        self.assertAlmostEqual(self.row["least_gb"], (peak - floor) / 2e9, delta=0.001)
        self.assertLess(floor, 1.1 * self.model["needed_bytes"])

    def test_a_row_has_every_number(self):
        self.assertLessEqual(set(step_models.COLUMNS), set(self.row))
        for name in ("plain_s", "held_s", "step_s", "written_gb", "read_gb", "write_gb_per_s", "limit_s"):
            self.assertGreater(self.row[name], 0, name)
        self.assertIn("\n| GPT, sequence 64 | 0.5 | ", self.done.stdout)


def round_of(step_s: float, **more: float) -> dict:
    """Held takes 2 s, half of it forward; the drive writes 1 GB/s and reads 2."""
    held = {"step_s": 2.0, "forward_s": 1.0, "cpu_s": 2.0, "written_bytes": 0}
    capped = {"step_s": step_s, "forward_s": step_s / 2, "cpu_s": 2.0, "peak_bytes": 60, "written_bytes": 10**9,
              "read_bytes": 10**9, "stall_store_ns": 0, "stall_load_ns": 0, "admission_ns": 0, "nvme_store_busy_ns": 0,
              "nvme_load_busy_ns": 0, **more}
    return {"plain": {"step_s": 2.5}, "plain again": {"step_s": 2.5}, "held": held, "0.5": capped,
            "drive": {"write_gb_per_s": 1.0, "read_gb_per_s": 2.0}}


def measured(*rounds: dict) -> dict:
    return {"peak_bytes": 100, "budget_bytes": {"0.5": 60}, "rounds": list(rounds),
            "plain_over_plain": [1.0] * len(rounds), "bits_equal": {"held": True, "0.5": True}}


class Rows(unittest.TestCase):
    """Of runs that are made up."""

    def row(self, **more: float) -> dict:
        [row] = step_models.rows_of("swin_t", measured(*[round_of(2.1, **more)] * 5))
        return row

    def test_the_limit_is_the_step_that_moves_nothing(self):
        row = self.row()
        self.assertEqual((row["drive_s"], row["limit_s"], row["over_limit"]), (1.5, 2.0, 1.05))
        self.assertEqual((row["over_plain"], row["steady"], step_models.verdict(row)), (0.84, True, ""))

    def test_the_limit_is_the_drive(self):
        row = self.row(read_bytes=4 * 10**9)
        self.assertEqual((row["drive_s"], row["limit_s"], row["over_limit"]), (3.0, 3.0, 0.7))
        self.assertEqual(row["limit_by_phase_s"], 3.0)

    def test_more_than_a_twentieth_above_the_limit(self):
        [row] = step_models.rows_of("swin_t", measured(*[round_of(2.2)] * 5))
        self.assertEqual(step_models.verdict(row), "above the bar")

    def test_too_few_rounds_are_not_judged(self):
        [row] = step_models.rows_of("swin_t", measured(*[round_of(2.2)] * 3))
        self.assertEqual(step_models.verdict(row), "unsteady")

    def test_what_is_wrong_is_named(self):
        fine = measured(round_of(2.0))
        self.assertEqual(step_models.faults_of("m", fine), [])
        changes = {
            "m, 0.5: not plain's bits": lambda run: run["bits_equal"].update({"0.5": False}),
            "m, 0.5: above its budget": lambda run: run["rounds"][0]["0.5"].update(peak_bytes=61),
            "m, 0.5: moved nothing": lambda run: run["rounds"][0]["0.5"].update(written_bytes=0),
            "m: held moved something": lambda run: run["rounds"][0]["held"].update(written_bytes=1)}
        for fault, change in changes.items():
            wrong = copy.deepcopy(fine)
            change(wrong)
            self.assertEqual(step_models.faults_of("m", wrong), [fault])


if __name__ == "__main__":
    unittest.main()
