# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-compare-real: that it runs on a tiny model, what its table says of results that are made up, and that the page has the last ones."""

import json
import pathlib
import sys
import tempfile
import unittest

import quick_bench
from quick_bench import BENCH

sys.path.insert(0, str(BENCH))
import compare_real  # noqa: E402: it lies in bench/
import page_tables  # noqa: E402


class Quick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "compare_real.json"
            cls.done, cls.line = quick_bench.run("compare_real.py", "--only", "gpt2", "--json", str(file))
            [cls.model] = json.loads(file.read_text(encoding="utf-8"))["models"]
        cls.rows = {row["policy"]: row for row in cls.model["rows"]}

    def test_the_line_tells_and_judges_no_time(self):
        self.assertEqual((self.line["name"], self.line["bar"], self.line["detail"]["faults"]), ("compare_real", None, []))
        self.assertTrue(self.line["holds"])
        self.assertEqual(self.done.returncode, 0)

    def test_what_runs_is_foretold_and_measured_with_plains_bits(self):
        for name in ("online", "rotor"):
            row = self.rows[name]
            self.assertTrue(row["bits_equal"], name)
            self.assertGreaterEqual(row["foretold"], 1)
            self.assertGreater(row["measured"], 0)
            self.assertLessEqual(row["measured_peak_bytes"], row["budget_bytes"])
        self.assertGreater(self.rows["online"]["stored_bytes"], 0)
        self.assertGreater(self.rows["rotor"]["recomputed_bytes"], 0)

    def test_what_does_not_run_says_why(self):
        self.assertIn("it needs convolutions", self.rows["vdnn_conv"]["refusal"])
        self.assertNotIn("measured", self.rows["vdnn_conv"])

    def test_the_budget_is_half_way_from_the_floor_to_the_peak(self):
        middle = (self.model["floor_bytes"] + self.model["peak_bytes"]) / 2
        self.assertEqual({row["budget_bytes"] for row in self.model["rows"]}, {int(middle)})


def row(policy, share, measured=None, foretold=None, **more):
    ran = {"measured": measured, "foretold": foretold, "bits_equal": True, "measured_peak_bytes": 90, "foretold_peak_bytes": 100}
    return {"policy": policy, "share": share, "budget_bytes": 100, **(ran if measured else {}), **more}


def model(*rows):
    return {"model": "resnet18", "plain_over_plain": [1.0], "rows": list(rows)}


class MadeUp(unittest.TestCase):
    one = model(row("a", 0.5, 2.0, 1.6), row("a", 0.25), row("b", 0.5, 3.0, 3.0), row("b", 0.25, 1.5, 1.0))

    def test_those_that_run_more_often_come_first_and_a_cell_has_both_times(self):
        self.assertEqual(compare_real.table([self.one]).splitlines(), [
            "| policy | ResNet-18, 1/2 | ResNet-18, 1/4 |", "|---|---|---|",
            "| `b` | 3.00 (3.00) | 1.50 (1.00) |", "| `a` | 2.00 (1.60) | - |"])

    def test_how_far_off_it_was_is_a_median_over_what_ran(self):
        self.assertEqual(compare_real.off_by([self.one]), 0.25)
        self.assertIsNone(compare_real.off_by([model(row("a", 0.5))]))
        self.assertEqual(compare_real.peak_off_by([self.one]), [0.9, 0.9, 0.9])

    def test_other_bits_and_a_peak_above_the_budget_are_faults(self):
        self.assertEqual(compare_real.faults(self.one), [])
        wrong = model(row("a", 0.5, 1.0, 1.0, bits_equal=False), row("b", 0.5, 1.0, 1.0, measured_peak_bytes=101))
        self.assertEqual(compare_real.faults(wrong), ["a, resnet18, 0.5: not plain's bits", "b, resnet18, 0.5: 101 bytes of 100"])

    def test_the_file_has_a_row_on_a_line(self):
        text = compare_real.as_text({"models": [self.one]})
        self.assertEqual(json.loads(text), {"models": [self.one]})
        self.assertEqual(sum('"policy"' in line for line in text.splitlines()), 4)


    def test_the_page_says_which_models_were_unsteady(self):
        calm = {**self.one, "plain_over_plain": [1.0, 1.001, 0.999, 1.0]}
        self.assertEqual(compare_real.unsteady([calm]), "")
        said = compare_real.page_text([{**calm, "plain_over_plain": [1.0, 1.2, 0.9, 1.1]}]).splitlines()[-1]
        self.assertTrue(said.startswith("Unsteady") and said.endswith("ResNet-18 (20%)."), said)


class Page(unittest.TestCase):
    def test_the_docs_have_the_table_of_the_committed_results(self):
        told = compare_real.page_text(compare_real.read(compare_real.RESULTS))
        self.assertEqual(page_tables.held(compare_real.PAGE, "compare_real"), told, "make bench-compare-real FLAGS=--page")

    def test_where_nothing_was_measured_it_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(compare_real.page_text(compare_real.read(pathlib.Path(folder) / "none.json")), compare_real.NOT_YET)


if __name__ == "__main__":
    unittest.main()
