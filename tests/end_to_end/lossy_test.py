# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`spillway train` with codecs: what is lossy was asked for and is told, what is exact has the plain losses."""

import json
import pathlib
import signal
import unittest

from harness import LIMIT_S, SMALL, InFolder

CAP = 40 << 20


class Codecs(InFolder):
    def capped(self, *more: str) -> dict:
        return self.trained(*SMALL, "--steps", "4", "--lr", "3e-3", "--warmup", "1", "--device-budget", "40MiB",
                            "--nvme", ".", *more)

    def test_qpo_trains_nearly_as_plain_and_says_what_it_lost(self):
        plain = self.trained(*SMALL, "--steps", "4", "--lr", "3e-3", "--warmup", "1")["losses"]
        found = self.capped("--policy", "qpo", "--lossy", "--measure-gradient-error")
        self.assertNotEqual(found["losses"], plain)
        for one, other in zip(found["losses"], plain, strict=True):
            self.assertAlmostEqual(one / other, 1, delta=0.05)
        self.assertLessEqual(found["allocator_peak_bytes"], CAP)
        rows = {row["tensor_class"]: row for row in found["report"]["codecs"]}
        self.assertEqual(set(rows), {"linear_input", "norm_input", "activation_input"})
        self.assertLess(rows["linear_input"]["bits"], 5)
        self.assertLess(rows["norm_input"]["bits"], 9)
        error = found["gradient_error"]
        self.assertTrue(0 < error["all"] < 0.2, error["all"])
        self.assertIn("h.0.mlp.c_fc.weight", error["parameters"])

    def test_exact_codecs_have_the_losses_of_a_run_without(self):
        plain = self.capped()
        self.assertEqual(plain["report"]["codecs"], [])
        self.assertIsNone(plain["gradient_error"])
        for more in (["--codec", "all=lossless"], ["--policy", "qpo", "--codec", "all=identity"],
                     ["--lossy", "--policy", "qpo", "--codec", "all=lossless", "--measure-gradient-error"]):
            found = self.capped(*more)
            self.assertEqual(found["losses"], plain["losses"], more)
            self.assertEqual((found["gradient_error"] or {"all": 0})["all"], 0)

    def test_a_resumed_run_rounds_as_a_whole_one(self):
        lossy = ["--lossy", "--codec", "affine4:stochastic", "--codec", "attention=affine8:stochastic"]
        words = [*SMALL, "--steps", "4", "--lr", "3e-3", "--warmup", "1", "--device-budget", "40MiB",
                 "--nvme", ".", *lossy]
        whole = self.trained(*words)
        self.assertEqual(len(whole["report"]["codecs"]), 4)
        process = self.start(*words, "--checkpoint", "ckpt")
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=LIMIT_S)[1]
        self.assertEqual(process.returncode, 130, said)
        rest = self.trained(*words, "--resume", "ckpt")["losses"]
        self.assertLess(len(rest), 4)
        self.assertEqual(rest, whole["losses"][4 - len(rest):])

    def test_gradients_that_nothing_encoded_was_read_for(self):
        done = self.run_program("train", *SMALL, "--steps", "2", "--device-budget", "2GiB", "--nvme", ".", "--policy", "qpo",
                                "--lossy", "--measure-gradient-error", "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nothing that was encoded came back", done.stdout)

    def test_what_nobody_reads_is_not_waited_for_at_a_rate(self):
        done = self.run_program("train", *SMALL, "--steps", "1", "--device-budget", "2GiB", "--nvme", ".", "--policy", "qpo",
                                "--lossy", "--nvme-rate", "1KiB", "--json", "out.json")  # 10 MiB would take hours
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(pathlib.Path(self.path("out.json")).read_text())["report"]["nvme_stored_bytes"], 0)

    def test_a_run_with_codecs_replays(self):
        self.capped("--policy", "qpo", "--lossy", "--record-events", "events")
        self.assertIn('"encoded_bytes"', pathlib.Path(self.path("events")).read_text())
        done = self.run_program("replay", "events")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_slower_drive_is_asked_for(self):
        found = self.capped("--nvme-rate", "100MB")["report"]
        self.assertLess(found["nvme_stored_bytes"] / found["nvme_store_busy_ns"], 0.11)


if __name__ == "__main__":
    unittest.main()
