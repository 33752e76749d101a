# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-foretell: that it runs on a tiny model, what it tells of results that are made up, and that the docs have the last ones."""

import json
import pathlib
import sys
import tempfile
import unittest

import quick_bench
from quick_bench import BENCH

sys.path.insert(0, str(BENCH))
import compare_real  # noqa: E402: it lies in bench/
import foretell  # noqa: E402
import page_tables  # noqa: E402


class Quick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "foretell.json"
            cls.done, cls.line = quick_bench.run("foretell.py", "--only", "gpt2", "--json", str(file))
            [cls.model] = json.loads(file.read_text(encoding="utf-8"))["models"]

    def test_the_line_tells_and_judges_no_time(self):
        self.assertEqual((self.line["name"], self.line["bar"], self.line["detail"]["faults"]), ("foretell", foretell.BAR, []))
        self.assertTrue(self.line["holds"])
        self.assertEqual(self.done.returncode, 0)

    def test_a_mover_and_one_that_makes_again_are_foretold_and_measured(self):
        rows = {row["policy"]: row for row in self.model["rows"]}
        self.assertEqual(set(rows), {"online", "sqrt_checkpoint"})
        for name, row in rows.items():
            self.assertGreaterEqual(row["foretold"], 1, name)
            self.assertGreater(row["measured_over_held"], 0, name)
            self.assertTrue(row["bits_equal"], name)
            self.assertLessEqual(row["measured_peak_bytes"], row["budget_bytes"], name)
        self.assertGreater(rows["online"]["stored_bytes"], 0)
        self.assertGreater(rows["sqrt_checkpoint"]["recomputed_bytes"], 0)


def row(policy, share, measured=None, foretold=None, **more):
    ran = {"measured": measured, "measured_over_held": measured, "foretold": foretold, "bits_equal": True,
           "measured_peak_bytes": 100, "foretold_peak_bytes": 100}
    return {"policy": policy, "share": share, "budget_bytes": 110, **(ran if measured else {}), **more}


def model(*rows):
    return {"model": "resnet18", "plain_over_plain": [1.0], "rows": list(rows)}


class MadeUp(unittest.TestCase):
    one = model(row("a", 0.5, 2.0, 1.6), row("a", 0.25), row("b", 0.5, 1.0, 1.1), row("b", 0.25, 1.05, 1.7))

    def test_how_far_off_it_was_is_a_median_of_foretold_over_measured(self):
        self.assertEqual(foretell.off_by([self.one]), 0.2)
        self.assertEqual(foretell.off_by([self.one], "b"), 0.3595)
        self.assertIsNone(foretell.off_by([model(row("a", 0.5))]))

    def test_pairs_that_differ_by_more_than_a_tenth_have_to_be_foretold_in_order(self):
        self.assertEqual(len(foretell.pairs([self.one])), 2)
        self.assertEqual(foretell.wrong_pairs([self.one]), ["resnet18: b 1/4 before a 1/2"])

    def test_it_holds_within_the_bar_and_with_every_pair_in_order(self):
        self.assertTrue(foretell.holds(0.07, []))
        self.assertFalse(foretell.holds(0.08, []))
        self.assertFalse(foretell.holds(0.07, ["a pair"]))
        self.assertFalse(foretell.holds(None, []))

    def test_a_peak_above_the_foretold_one_is_a_fault_as_is_one_above_the_budget(self):
        self.assertEqual(foretell.faults_of(model(row("a", 0.5, 1.0, 1.0, measured_peak_bytes=103))), [])
        self.assertEqual(foretell.faults_of(model(row("a", 0.5, 1.0, 1.0, measured_peak_bytes=104))),
                         ["a, resnet18, 0.5: a peak of 104 bytes, 100 foretold"])
        self.assertIn("a, resnet18, 0.5: 111 bytes of 110", foretell.faults_of(model(row("a", 0.5, 1.0, 1.0, measured_peak_bytes=111))))

    def test_a_cell_has_the_measured_and_the_foretold_ratio(self):
        self.assertEqual(foretell.table([self.one]).splitlines(), [
            "| policy | budget | ResNet-18 |", "|---|---|---|", "| `a` | 1/2 | 2.00 (1.60) |", "| `a` | 1/4 | - |",
            "| `b` | 1/2 | 1.00 (1.10) |", "| `b` | 1/4 | 1.05 (1.70) |"])


class Page(unittest.TestCase):
    def test_the_docs_have_the_table_of_the_committed_results(self):
        told = foretell.page_text(compare_real.read(foretell.RESULTS))
        self.assertEqual(page_tables.held(foretell.PAGE, "foretell"), told, "make bench-foretell FLAGS=--page")


if __name__ == "__main__":
    unittest.main()
