# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-tba: that it runs on a tiny model, and what it says of results that are made up."""

import json
import pathlib
import sys
import tempfile
import unittest

import quick_bench
from quick_bench import BENCH

sys.path.insert(0, str(BENCH))
import tba  # noqa: E402: it lies in bench/


class Quick(unittest.TestCase):
    def test_the_line_tells_and_judges_no_time(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "tba.json"
            done, line = quick_bench.run("tba.py", "--only", "gpt2", "--json", str(file))
            [model] = json.loads(file.read_text(encoding="utf-8"))["models"]
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((line["name"], line["bar"], line["holds"], line["detail"]["faults"]), ("tba", tba.PEAK_BAR, True, []))
        self.assertEqual([row["policy"] for row in model["rows"]], ["tba"])
        self.assertLessEqual(line["value"], 1.0)


def model(measured, foretold, step):
    return {"model": "gpt2", "peak_bytes": 300, "model_bytes": 100, "plain_over_plain": [1.0], "rows": [
        {"policy": "tba", "measured_peak_bytes": measured, "foretold_peak_bytes": foretold, "measured_over_held": step, "stored_bytes": 1}]}


class MadeUp(unittest.TestCase):
    def test_activations_are_what_is_beside_the_model(self):
        self.assertEqual(tba.figures(model(200, 190, 1.0)), {"activations": 0.5, "foretold": 0.45, "step": 1.0, "stored_bytes": 1})

    def test_it_holds_where_half_leaves_or_as_much_as_was_foretold(self):
        for one, is_good in [(model(200, 190, 1.0), True), (model(250, 252, 1.0), True), (model(250, 240, 1.0), False),
                             (model(200, 190, 1.05), False), (model(200, 200, 1.03), True)]:
            with self.subTest(one):
                self.assertEqual(tba.holds(tba.figures(one)), is_good)


if __name__ == "__main__":
    unittest.main()
