# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-recompute-peers: that it runs, compares bit by bit, and what its rows say of runs that are made up.

The times of its own run say nothing here: the model is tiny, and the machine busy.
"""

import copy
import os
import sys
import unittest

import quick_bench
from quick_bench import BENCH

sys.path.insert(0, str(BENCH))
import recompute_peers  # noqa: E402: it lies in bench/

MODEL = "resnet18"  # whose buffers a checkpoint updates twice


@unittest.skipIf(os.environ.get("SPILLWAY_TESTS") == "quick", "make test-all runs it")
class Quick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done, cls.line = quick_bench.run("recompute_peers.py", "--only", MODEL)
        cls.detail = cls.line["detail"]
        cls.rows = cls.detail["rows"][MODEL]

    def test_the_line_judges_no_time_of_one_round(self):
        self.assertEqual(set(self.line), {"name", "value", "unit", "bar", "holds", "unsteady", "detail"})
        self.assertEqual((self.line["name"], self.line["bar"]), ("recompute-peers", 1.0))
        self.assertEqual((self.line["value"], self.line["unsteady"]), (None, True))

    def test_all_sides_run_and_spillways_have_plains_bits(self):
        self.assertEqual(list(self.rows), list(recompute_peers.SIDES))
        for name, row in self.rows.items():
            self.assertGreater(row["over_plain"], 0, name)
            self.assertEqual(row["bits"], "differ: buffers" if name in ("checkpoint", "checkpoint_2nd", "sac", "torch_remat") else "equal", name)
        self.assertEqual((self.detail["faults"], self.line["holds"], self.done.returncode), ([], True, 0))

    def test_peers_and_spillway_lower_the_peak_by_what_they_say(self):
        for name in ("checkpoint", "move"):
            self.assertLess(self.rows[name]["peak_share"], 1, name)
        for name in (*recompute_peers.AGAIN, *recompute_peers.MOVES):
            self.assertLessEqual(self.rows[name]["peak_share"], 1, name)
            self.assertLessEqual(self.rows[name]["peak_mb"], self.rows[name]["budget_mb"], name)
        for name in recompute_peers.AGAIN:
            self.assertGreater(self.rows[name]["again_mb"], 0, name)
            self.assertLess(self.rows[name]["moved_mb"], self.rows[name]["again_mb"], name)
        self.assertGreater(self.rows["move"]["moved_mb"], 0)
        self.assertEqual(self.rows["move"]["again_mb"], 0)
        self.assertIn("\n| rotor | ", self.done.stdout)


def measured(seconds: dict[str, float], count: int = 5) -> dict:
    """Plain takes 1 s and 100 MB beyond 10 MB of weights, checkpoint 1.3 s and 50 MB."""
    def run(step_s: float, megabytes: int) -> dict:
        return {"step_s": step_s, "cpu_s": step_s, "peak_bytes": megabytes * 10**6, "recomputed_bytes": 0, "stored_bytes": 0}
    found = {"no session": {"step_s": 1.0, "cpu_s": 1.0}, "plain": run(1.0, 110), "plain again": run(1.0, 110),
             "checkpoint": run(1.3, 60), "checkpoint_2nd": run(1.2, 80), "sac": run(1.1, 90), "torch_remat": run(1.4, 70)}
    found |= {name: run(step_s, 58) for name, step_s in seconds.items()}
    notes = {name: {"budget_bytes": 60 * 10**6, "refusal": ""} for name in seconds}
    notes |= {name: {"budget_bytes": None, "refusal": f"policy {name}: too little"} for name in recompute_peers.SIDES
              if name not in (*recompute_peers.PEERS, *seconds)}
    return {"base_bytes": 10 * 10**6, "peak_bytes": 110 * 10**6, "sides": notes, "rounds": [found] * count,
            "plain_over_plain": [1.0] * count, "differs": {name: [] for name in found}}


class Rows(unittest.TestCase):
    def test_peaks_are_beyond_what_was_there_before_the_step(self):
        rows = recompute_peers.rows_of(measured({"rotor": 1.2}))
        self.assertEqual((rows["checkpoint"]["peak_mb"], rows["checkpoint"]["peak_share"]), (50.0, 0.5))
        self.assertEqual((rows["rotor"]["budget_mb"], rows["rotor"]["peak_share"], rows["rotor"]["over_plain"]), (50.0, 0.48, 1.2))
        self.assertIsNone(rows["no session"]["peak_mb"])

    def test_the_quickest_of_ours_is_held_against_checkpoint(self):
        self.assertEqual(recompute_peers.over_checkpoint(recompute_peers.rows_of(measured({"rotor": 1.56, "str": 1.17}))), 0.9)
        self.assertIsNone(recompute_peers.over_checkpoint(recompute_peers.rows_of(measured({}))))

    def test_one_that_needs_more_than_checkpoint_does_not_count(self):
        found = measured({"rotor": 1.04, "str": 1.3})
        found["sides"]["rotor"]["budget_bytes"] += 10**6
        self.assertEqual(recompute_peers.over_checkpoint(recompute_peers.rows_of(found)), 1.0)

    def test_of_half_the_peak_the_quickest_that_makes_again_is_held_against_plain(self):
        rows = recompute_peers.rows_of(measured({"rotor": 1.2, "sqrt_checkpoint": 1.1, "str": 1.01}))
        self.assertEqual(recompute_peers.again_over_plain(rows), 1.1)
        found = measured({"rotor": 1.2, "sqrt_checkpoint": 1.1})
        found["sides"]["sqrt_checkpoint"]["budget_bytes"] += 10**6
        self.assertEqual(recompute_peers.again_over_plain(recompute_peers.rows_of(found)), 1.2)
        self.assertIsNone(recompute_peers.again_over_plain(recompute_peers.rows_of(measured({"str": 1.01}))))

    def test_what_did_not_run_says_why(self):
        rows = recompute_peers.rows_of(measured({"rotor": 1.2}))
        self.assertIn("| auto | - | - | - | - | - | - | did not run | policy auto: too little |", recompute_peers.table(rows))

    def test_what_is_wrong_is_named(self):
        fine = measured({"rotor": 1.2})
        self.assertEqual(recompute_peers.faults_of("m", fine), [])
        changes = {
            "m, rotor: not plain's gradients": lambda run: run["differs"].update(rotor=["gradients"]),
            "m, rotor: above its budget": lambda run: run["rounds"][0]["rotor"].update(peak_bytes=60 * 10**6 + 1)}
        for fault, change in changes.items():
            wrong = copy.deepcopy(fine)
            change(wrong)
            self.assertEqual(recompute_peers.faults_of("m", wrong), [fault])


if __name__ == "__main__":
    unittest.main()
