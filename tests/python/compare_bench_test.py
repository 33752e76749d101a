# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-compare: that it foretells every policy of the program, and what its table says of results that are made up."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import quick_bench
from quick_bench import BENCH

sys.path.insert(0, str(BENCH))
import compare  # noqa: E402: it lies in bench/
import known_steps  # noqa: E402
import page_tables  # noqa: E402


class Quick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "compare.json"
            cls.done, cls.line = quick_bench.run("compare.py", "--json", str(file))
            cls.file = json.loads(file.read_text(encoding="utf-8"))
            cls.table = subprocess.run([sys.executable, str(BENCH / "compare.py"), "--table", "--json", str(file)],
                                       capture_output=True, text=True, check=True).stdout
        [cls.case] = cls.file["cases"]

    def test_the_line_tells_and_judges_no_time(self):
        self.assertEqual((self.line["name"], self.line["bar"], self.line["detail"]["faults"]), ("compare", None, []))
        self.assertTrue(self.line["holds"])
        self.assertEqual(self.done.returncode, 0)

    def test_every_policy_has_a_number_or_a_refusal_for_each_budget(self):
        names = set(self.case["slowdowns"])
        self.assertLessEqual({"online", "delta", "te", "capuchin", "swapadvisor", "largest_first"}, names)
        for name, slowdowns in self.case["slowdowns"].items():
            self.assertEqual(len(slowdowns), len(compare.SHARES))
            self.assertEqual(None in slowdowns, name in self.case["refusals"], name)

    def test_the_budgets_lie_between_floor_and_peak(self):
        budgets = self.case["budgets"]
        self.assertEqual(budgets, sorted(budgets, reverse=True))
        self.assertLess(self.case["floor_bytes"], budgets[-1])
        self.assertLess(budgets[0], self.case["peak_bytes"])

    def test_the_table_has_a_row_for_each_policy(self):
        rows = self.table.splitlines()[2:]
        self.assertEqual(len(rows), len(self.case["slowdowns"]))
        self.assertEqual({row.count("|") for row in rows}, {2 + 2 * len(compare.SHARES)})


def case(model, **slowdowns):
    return {"model": model, "slowdowns": slowdowns}


class Page(unittest.TestCase):
    def test_the_docs_have_the_table_of_the_committed_results(self):
        cases = compare.read_cases(compare.RESULTS)
        self.assertEqual(page_tables.held(compare.PAGE, "compare"), compare.table(cases), "make bench-compare FLAGS=--page")
        self.assertEqual(page_tables.held(compare.BEST_PAGE, "compare"), compare.best_table(cases), "make bench-compare FLAGS=--page")

    def test_a_table_is_put_between_its_two_comments_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text(f"before\n{page_tables.begin_of('x')}\n\nold\n\n{page_tables.END}\nafter\n", encoding="utf-8")
            page_tables.put(page, "x", "| new |")
            self.assertEqual(page_tables.held(page, "x"), "| new |")
            self.assertEqual(page.read_text(encoding="utf-8").replace("| new |", "old").splitlines()[::6], ["before", "after"])
            with self.assertRaisesRegex(ValueError, "page.md has no table"):
                page_tables.put(page, "y", "")


class MadeUp(unittest.TestCase):
    cases = (case("vgg16", a=[1.0, 1.0, 1.0, 4.0], b=[2.0, 2.0, None, None]),
             case("resnet50", a=[4.0, 1.0, 1.0, 1.0], b=[2.0, 8.0, 2.0, None]))

    def test_a_cell_is_the_geometric_mean_and_says_where_a_policy_does_not_run(self):
        self.assertEqual(compare.cell([2.0, 8.0]), "4.00")
        self.assertEqual(compare.cell([2.0, None]), "2.00 (1 of 2)")
        self.assertEqual(compare.cell([None, None]), "does not run")

    def test_the_quickest_is_of_those_that_run_everywhere(self):
        fast_but_refused = [case("vgg16", a=[1.5, 1.5, 1.5, 1.5], b=[1.0, 1.0, 1.0, None])]
        self.assertEqual(compare.quickest(fast_but_refused), ("a", 1.5))

    def test_rows_of_policies_that_run_in_more_cases_come_first(self):
        rows = compare.table(list(self.cases)).splitlines()[2:]
        self.assertEqual([row.split("|")[1].strip() for row in rows], ["`a`", "`b`"])
        self.assertEqual([cell.strip() for cell in rows[1].split("|")[6:10]], ["2.00", "4.00", "2.00 (1 of 2)", "does not run"])

    def test_the_quickest_of_a_budget_run_on_all_machines(self):
        cases = [case("vgg16", a=[4.0, 1.0], b=[3.0, None], c=[1.0, 5.0]), case("vgg16", a=[1.0, 1.0], b=[3.0, 1.0], c=[1.0, 5.0])]
        self.assertEqual(compare.best(cases, 0), [(1.0, "c"), (2.0, "a"), (3.0, "b")])
        self.assertEqual(compare.best(cases, 1), [(1.0, "a"), (5.0, "c")])

    def test_a_peak_above_the_budget_is_a_fault(self):
        def row(slowdown, peak):
            return known_steps.Row("te", 100, "", slowdown, peak, 0, 0)
        rows = [row(1.2, 100), row(1.2, 101), row(0.9, 50), known_steps.Row("te", 100, "why", 0.0, 0, 0, 0)]
        told = known_steps.Comparison(1, 200, 50, rows)
        self.assertEqual(len(compare.faults(compare.STEPS[0], told)), 2)

    def test_the_file_has_a_list_of_numbers_on_a_line(self):
        text = compare.as_text({"cases": [{"a": [1.5, None], "why": ["x"]}]})
        self.assertIn('"a": [1.5, null]', text)
        self.assertEqual(json.loads(text), {"cases": [{"a": [1.5, None], "why": ["x"]}]})


if __name__ == "__main__":
    unittest.main()
