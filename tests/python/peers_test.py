# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-peers: that it runs, compares bit by bit, sees a system that is wrong, and can miss each bar.

Its times say nothing here: the model is tiny, and the machine busy.
"""

import copy
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

import quick_bench
from quick_bench import BENCH

PEERS = ["plain", "checkpoint", "sac", "torch_remat"]
QUICK = {"spillway_25": 0.25, "recompute_50": 0.5}  # each takes seconds
MOVED = {"spillway_25": ["stored_bytes_per_step", "loaded_bytes_per_step"], "recompute_50": ["recomputed_bytes_per_step"]}
NEEDED = ("torch_remat", "trl", "accelerate", "transformers")

sys.path.insert(0, str(BENCH))
import peers_table  # noqa: E402: it lies in bench/


class Picture(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "no matplotlib here")
    def test_pictures_are_made_of_the_committed_lines(self):
        for script, line, picture in (("plot_peers.py", "peers.json", "peers.svg"),
                                      ("plot_recompute.py", "recompute_peers.json", "recompute.svg")):
            with self.subTest(script), tempfile.TemporaryDirectory() as folder:
                made = pathlib.Path(folder) / picture
                subprocess.run([sys.executable, BENCH / script, BENCH / "results" / line, made], check=True)
                self.assertEqual(made.read_text(), (BENCH.parent / "docs/pictures" / picture).read_text())


class Quick(unittest.TestCase):
    """One quick run of all systems, with one that is wrong on purpose."""

    @classmethod
    def setUpClass(cls):
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise unittest.SkipTest(f"bench-peers compares with what is not installed: {', '.join(missing)}")
        if not torch.__version__.startswith("2.15."):
            raise unittest.SkipTest("bench-peers is measured with torch 2.15 alone")
        systems = ",".join([*PEERS, *QUICK, "rounded"])
        cls.done, cls.line = quick_bench.run("peers.py", "--systems", systems)
        cls.detail = cls.line["detail"]
        cls.systems = cls.detail["systems"]

    def test_the_line_has_every_number(self):
        self.assertEqual(set(self.line), {"name", "value", "unit", "bar", "holds", "unsteady", "detail"})
        self.assertIs(self.line["unsteady"], True, "one round does not show how steady the machine is")
        self.assertEqual(self.line["name"], "peers")
        self.assertEqual(self.line["bar"], 1.1)
        self.assertEqual(list(self.systems), [*PEERS, *QUICK, "rounded"])
        for name, row in self.systems.items():
            self.assertNotIn("error", row, name)
            for field in ("allocator_peak_bytes", "process_peak_bytes", "baseline_rss_bytes"):
                self.assertGreater(row[field], 0, (name, field))
            for field in ("step_s", "ratio"):
                self.assertEqual(row[field], sorted(row[field]), (name, field))
                self.assertGreater(row[field][0], 0, (name, field))
        self.assertEqual(self.systems["plain"]["ratio"], [1, 1, 1])
        self.assertEqual(self.line["value"], self.systems["spillway_25"]["ratio"][1])

    def test_losses_and_gradients_of_every_exact_system_are_plains(self):
        for name in [*PEERS, *QUICK]:
            self.assertTrue(self.systems[name]["losses_equal"], name)
            self.assertTrue(self.systems[name]["gradients_equal"], name)

    def test_a_wrong_system_is_seen(self):
        self.assertFalse(self.systems["rounded"]["losses_equal"])
        self.assertFalse(self.systems["rounded"]["gradients_equal"])
        self.assertFalse(self.detail["bars"]["losses and gradients equal to plain's"]["holds"])
        self.assertFalse(self.line["holds"])
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("NOT equal", self.done.stdout)

    def test_peaks_are_what_the_systems_are_for(self):
        plain = self.systems["plain"]["allocator_peak_bytes"]
        for name in PEERS[1:]:
            self.assertLess(self.systems[name]["allocator_peak_bytes"], 0.9 * plain, name)
        for name, share in QUICK.items():
            row = self.systems[name]
            self.assertLessEqual(row["allocator_peak_bytes"], share * self.detail["plain_peak_bytes"], name)
            for field in ("stored_bytes_per_step", "loaded_bytes_per_step", "recomputed_bytes_per_step"):
                self.assertEqual(row[field] > 0, field in MOVED[name], (name, field))

    def test_both_ways_to_count_the_allocator_agree(self):
        self.assertAlmostEqual(self.detail["idle"]["session_peak_over_counted"], 1, delta=0.02)

    def test_a_session_with_nothing_to_do_moved_nothing_and_changed_nothing(self):
        self.assertEqual(self.detail["idle"]["stored_bytes"], 0)
        self.assertTrue(self.detail["idle"]["losses_equal"])
        self.assertGreater(self.detail["idle"]["saved_tensors_per_step"], 50)
        self.assertGreater(self.detail["idle"]["enter_us"][0], 0)

    def test_hook_costs_are_of_small_and_of_large_tensors(self):
        small, large = self.detail["hooks"]["sizes"]
        self.assertEqual((small["tensor_bytes"], small["registered_share"]), (64, 0))
        self.assertEqual((large["tensor_bytes"], large["registered_share"]), (65536, 1))
        self.assertEqual(set(large["ns"]), {"python_identity", "trl_one_stream", "trl_two_streams",
                                            "spillway", "spillway_session", "without"})

    def test_one_round_judges_no_time_and_one_import_is_too_few(self):
        self.assertEqual(self.detail["bars"]["rounds"], {"value": 1, "bar": 5, "holds": True})
        self.assertIs(self.line["unsteady"], True)
        self.assertFalse(self.detail["bars"]["imports"]["holds"])

    def test_the_table_has_a_row_a_system(self):
        for name in self.systems:
            self.assertIn(f"\n| {name} | ", "\n" + self.done.stdout)


def run(seconds: float, **more) -> dict:
    """A run of two steps, as train.py prints it."""
    return {"losses": ["0x1p+0", "0x1p-1"], "gradients": "ab", "step_seconds": [9.0, seconds],
            "process_peak_bytes": 9, "baseline_rss_bytes": 1, "allocator_peak_bytes": 100, **more}


class Bars(unittest.TestCase):
    """Each bar can be met, and missed, on runs that are made up."""

    def setUp(self):
        moved = {"stored_bytes": 8, "loaded_bytes": 8, "stall_store_ns": 0, "stall_load_ns": 0}
        self.runs = {"plain": [run(1.0) for _ in range(5)], "checkpoint": [run(1.25) for _ in range(5)]}
        for name, share in peers_table.SHARES.items():
            done = moved if name in peers_table.MOVES else {"recomputed_bytes": 8}
            self.runs[name] = [run(1.09, allocator_peak_bytes=int(100 * share), **done) for _ in range(5)]
        self.hooks = {"sizes": []}
        self.idle = {"ratio": [0.9, 1.009, 1.1], "stored_bytes": 0, "losses_equal": True}
        self.imported = {"added_s": [0.1, 0.19, 0.4], "pairs": 7}

    def missed(self, rounds: int = 5, is_steady: bool = True) -> list[str]:
        rows = peers_table.Rows(self.runs, 100)
        table = {name: peers_table.row(name, rows) for name in self.runs}
        bars = peers_table.bars(table, self.hooks, self.idle, self.imported, rounds, is_steady)
        return [name for name, bar in bars.items() if not bar["holds"]]

    def test_all_hold(self):
        self.assertEqual(self.missed(), [])

    def test_on_an_unsteady_machine_no_time_is_judged(self):
        self.runs["spillway_25"] = [{**each, "step_seconds": [2.0] * 5} for each in self.runs["spillway_25"]]
        self.imported["added_s"] = [0.3, 0.3, 0.3]
        self.assertEqual(self.missed(), ["step at a quarter of plain's peak", "import, seconds"])
        self.assertEqual(self.missed(is_steady=False), [])
        self.runs["checkpoint"][3]["gradients"] = "cd"
        self.assertEqual(self.missed(is_steady=False), ["losses and gradients equal to plain's"])

    def test_a_loss_that_differs_in_its_last_bit_once(self):
        self.runs["checkpoint"][3]["losses"] = ["0x1p+0", "0x1.0000000000001p-1"]
        self.assertEqual(self.missed(), ["losses and gradients equal to plain's"])

    def test_gradients_that_differ(self):
        self.runs["spillway_50"][0]["gradients"] = "cd"
        self.assertEqual(self.missed(), ["losses and gradients equal to plain's"])

    def test_a_plain_that_is_not_the_same_twice(self):
        self.runs["plain"][1]["losses"] = ["0x1p+0", "0x1p+0"]
        self.assertEqual(self.missed(), ["losses and gradients equal to plain's"])

    def test_a_slow_step_at_a_quarter(self):
        for one in self.runs["spillway_25"][:3]:
            one["step_seconds"] = [9.0, 1.11]
        self.assertEqual(self.missed(), ["step at a quarter of plain's peak"])

    def test_a_peak_above_the_budget_or_nothing_moved(self):
        runs = copy.deepcopy(self.runs)
        self.runs["spillway_75"][4]["allocator_peak_bytes"] = 76
        self.assertEqual(self.missed(), ["Spillway moves or recomputes, within its budget"])
        self.runs = copy.deepcopy(runs)
        for one in self.runs["spillway_75"]:
            one["stored_bytes"] = 0
        self.assertEqual(self.missed(), ["Spillway moves or recomputes, within its budget"])
        self.runs = copy.deepcopy(runs)
        for one in self.runs["recompute_50"]:
            one |= {"recomputed_bytes": 0, "stored_bytes": 8}
        self.assertEqual(self.missed(), ["Spillway moves or recomputes, within its budget"])

    def test_a_run_that_failed(self):
        self.runs["checkpoint"][2] = {"error": "exit code 1: no such module"}
        self.assertEqual(self.missed(), ["all ran"])
        self.runs["spillway_25"][0] = {"error": "exit code 1: out of memory"}
        self.assertEqual(self.missed(), ["all ran", "Spillway moves or recomputes, within its budget",
                                         "step at a quarter of plain's peak"])

    def test_hooks_that_were_not_measured(self):
        self.hooks = {"error": "trl is not installed"}
        self.assertEqual(self.missed(), ["all ran"])

    def test_the_small_costs(self):
        self.idle["ratio"][1] = 1.011
        self.imported["added_s"][1] = 0.21
        self.assertEqual(self.missed(), ["a session with nothing to do", "import, seconds"])
        self.idle |= {"ratio": [1, 1, 1], "stored_bytes": 1}
        self.assertIn("a session with nothing to do", self.missed())

    def test_too_few_rounds(self):
        self.imported["pairs"] = 6
        self.assertEqual(self.missed(rounds=4), ["rounds", "imports"])


if __name__ == "__main__":
    unittest.main()
