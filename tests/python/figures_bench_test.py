# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-figures: that it runs, how it searches a batch, and that docs/systems.md has what it told last."""

import pathlib
import sys
import tempfile
import unittest

import quick_bench
from quick_bench import BENCH

sys.path.insert(0, str(BENCH))
import figures  # noqa: E402: it lies in bench/
import known_steps  # noqa: E402
import page_tables  # noqa: E402

STEP = known_steps.Step("resnet50", "titan_x", 1)


class Quick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done, cls.line = quick_bench.run("figures.py")

    def test_the_line_has_the_figure_and_its_command(self):
        self.assertEqual((self.line["name"], self.line["bar"], self.done.returncode), ("figures", None, 0))
        figure = self.line["detail"]["figures"]["te"]
        self.assertTrue(figure["holds"], figure)
        self.assertRegex(figure["command"], r"^spillway trace --model gpt2-345m .*> step\.json; spillway compare step\.json gh200 ")


class UpTo:
    """A program under which batches up to some size run; it counts what it was asked."""

    def __init__(self, most):
        self.most, self.asked = most, 0

    def compare(self, step, policies, budgets, more=()):
        self.asked += 1
        self.more = tuple(more)
        peak = known_steps.memory_of(step.machine) + (1 if step.batch > self.most else 0)
        refusal = "too large" if step.batch > self.most else ""
        return known_steps.Comparison(1, peak, 0, [known_steps.Row(policies[0], 0, refusal, 1.0, 0, 0, 0)])


class LargestBatch(unittest.TestCase):
    def test_it_is_found_to_three_percent(self):
        for most in (1, 2, 7, 31, 33, 100, 1000, 4097):
            for policy in ("capuchin", "keep_all"):
                found = figures.largest_batch(UpTo(most), STEP, policy)
                self.assertLessEqual(found, most)
                self.assertLessEqual(most - found, most // 32, (most, policy))

    def test_where_nothing_runs_it_is_none(self):
        self.assertEqual(figures.largest_batch(UpTo(0), STEP, "capuchin"), 0)

    def test_it_asks_as_often_as_halving_does(self):
        program = UpTo(1000)
        figures.largest_batch(program, STEP, "capuchin")
        self.assertLessEqual(program.asked, 18)

    def test_what_only_makes_again_gets_no_host_memory(self):
        for policy, more in (("sqrt_checkpoint", figures.NO_HOST), ("capuchin", ())):
            program = UpTo(8)
            figures.under_memory(program, STEP, policy)
            self.assertEqual(program.more, more)


class Told(unittest.TestCase):
    def test_the_docs_have_what_was_told_last(self):
        told = figures.read(figures.RESULTS)
        self.assertEqual(list(told), list(figures.FIGURES), "make bench-figures FLAGS='--only NAME' for one that is missing")
        self.assertEqual(page_tables.held(figures.PAGE, "figures"), figures.table(told), "make bench-figures FLAGS=--page")

    def test_one_figure_alone_leaves_the_others_in_the_file(self):
        one, other = (figures.Figure(text, "ours", True, "", "c") for text in ("one", "other"))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "figures.json"
            figures.write(file, {"vdnn": one, "te": one})
            figures.write(file, {"te": other})
            self.assertEqual(figures.read(file), {"vdnn": one, "te": other})

    def test_the_reason_is_told_where_a_figure_does_not_hold(self):
        good = figures.Figure("theirs", "ours", True, "unused", "c")
        self.assertEqual(figures.verdict(good), "holds")
        self.assertEqual(figures.verdict(good._replace(holds=False, because="why")), "does not: why")
        self.assertEqual(figures.table({"x": good}).splitlines()[2], "| `x` | theirs | ours | holds |")

    def test_a_card_has_its_data_sheets_memory(self):
        self.assertEqual(known_steps.memory_of("titan_x"), 12 << 30)


if __name__ == "__main__":
    unittest.main()
