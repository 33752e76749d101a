# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-gradients: that it runs, sees what each class loses, and tells numbers that mean nothing.

One tiny model, one seed: the sizes of its errors say nothing.
"""

import importlib.util
import sys
import unittest

import quick_bench
from quick_bench import BENCH

ALL = ("all of QPO's", "all of QPO's, in 8 bits")
LOSSY = ("linear_input", "norm_input", "activation_input", "attention")
EXACT = ("nothing", "mask")

sys.path.insert(0, str(BENCH))
import gradients  # noqa: E402: it lies in bench/


class Quick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("transformers") is None:
            raise unittest.SkipTest("bench-gradients measures models of transformers, which is not installed")
        cls.done, cls.line = quick_bench.run("gradients.py", "--models", "gpt2")
        cls.rows = cls.line["detail"]["models"]["gpt2"]

    def test_the_line_has_every_number(self):
        self.assertEqual(set(self.line), {"name", "value", "unit", "bar", "holds", "detail"})
        self.assertEqual((self.line["name"], self.line["bar"]), ("gradients", None))
        self.assertEqual(set(self.rows), {*LOSSY, *EXACT, *ALL, "another batch"})
        self.assertAlmostEqual(self.line["value"], self.rows[ALL[0]]["error"], delta=1e-4)

    def test_exact_classes_are_off_by_nothing_and_the_others_by_little(self):
        for name in EXACT:
            self.assertEqual((self.rows[name]["error"], self.rows[name]["worst"]), (0, 0), name)
        for name in (*LOSSY, *ALL):
            self.assertGreater(self.rows[name]["error"], 0, name)
            self.assertLess(self.rows[name]["error"], 0.3, name)
        self.assertGreater(self.rows["linear_input"]["error"], self.rows["norm_input"]["error"])
        self.assertGreater(self.rows[ALL[0]]["error"], 4 * self.rows[ALL[1]]["error"])
        self.assertGreater(self.rows["another batch"]["error"], 0.5)

    def test_each_row_encodes_its_class_alone_and_all_of_it_leaves(self):
        for name in {*LOSSY, *EXACT} - {"nothing"}:
            self.assertEqual(list(self.rows[name]["classes"]), [name])
            self.assertGreater(self.rows[name]["classes"][name]["values"], 0)
            self.assertGreater(self.rows[name]["left"], 0.9)
        self.assertEqual(self.rows["nothing"]["classes"], {})
        for name in ALL:
            self.assertEqual(set(self.rows[name]["classes"]), {*LOSSY, "mask"} - {"attention"})

    def test_one_seed_is_too_few_to_hold(self):
        self.assertEqual(self.line["detail"]["faults"], ["1 seeds"])
        self.assertFalse(self.line["holds"])
        self.assertEqual(self.done.returncode, 1)

    def test_the_table_has_a_row_a_class_and_empty_cells(self):
        for name in gradients.ON_ITS_OWN:
            self.assertIn(f"\n| `{name}` | ", self.done.stdout)
        self.assertIn("\n| `relu_output` | sign |  |\n", self.done.stdout)
        self.assertIn("\n| nothing |  | 0 |\n", self.done.stdout)


class Faults(unittest.TestCase):
    """Numbers that are made up."""

    def faults(self, name: str, **row: float) -> list[str]:
        return gradients.faults_of("m", {name: {"error": 0.1, "worst": 0.2, "left": 1.0, **row}})

    def test_what_is_wrong_is_named(self):
        self.assertEqual(self.faults("norm_input"), [])
        self.assertEqual(self.faults("norm_input", error=0), ["m, norm_input: lossy, and not off"])
        self.assertEqual(self.faults("norm_input", left=0.8), ["m, norm_input: stayed on the device"])
        self.assertEqual(self.faults("mask"), ["m, mask: exact, and off"])
        self.assertEqual(self.faults("mask", error=0, worst=0), [])


if __name__ == "__main__":
    unittest.main()
