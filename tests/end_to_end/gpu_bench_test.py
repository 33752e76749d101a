# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The GPU benchmark's program on the CPU: its modes train alike, and it says so in one line."""

import json
import os
import subprocess
import unittest

from harness import BUILD, InFolder

PROGRAM = BUILD / "bench" / "gpu_torch_bench"
MODES = {"plain": [], "checkpoint": [], "save_on_cpu": [],
         "spillway": ["--budget", "7000000", "--host-budget", "100000000"]}


class GpuBench(InFolder):
    def setUp(self):
        if not PROGRAM.exists():
            self.skipTest(f"{PROGRAM} is not built (SPILLWAY_BENCH=OFF)")
        super().setUp()

    def bench(self, *words: str, device: str = "cpu") -> subprocess.CompletedProcess:
        return self.run_program("--device", device, *words, program=PROGRAM,
                                env=os.environ | {"OMP_NUM_THREADS": "1"})

    def line(self, *words: str) -> dict:
        done = self.bench(*words)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 1), done.stderr)
        return json.loads(done.stdout)

    def test_ours_has_the_losses_and_gradients_of_plain_and_peers_have_their_own(self):
        """A peer may compute with other bits: save_on_cpu gives tensors back in another layout, for which a
        machine without AVX-512 has another kernel in bf16."""
        for model, precision in (("tiny", "bf16"), ("tiny-llama", "fp32")):
            words = ["--model", model, "--precision", precision, "--steps", "2", "--warmup", "1"]
            lines = {mode: self.line(*words, "--mode", mode, *more) for mode, more in MODES.items()}
            for name in ("losses", "gradient_hash", "gradient_norms"):
                self.assertEqual(lines["spillway"][name], lines["plain"][name], name)
            for mode, line in lines.items():
                self.assertEqual(len(line["losses"]), 4, mode)
                for ours, theirs in zip(line["losses"], lines["plain"]["losses"], strict=True):
                    self.assertAlmostEqual(ours, theirs, delta=0.02 * abs(theirs), msg=mode)
                moves = mode in ("save_on_cpu", "spillway")
                self.assertEqual(line["out_bytes_a_step"] > 0, moves, mode)
                self.assertEqual(line["in_bytes_a_step"] > 0, moves, mode)
                self.assertGreater(line["backward_seconds"]["median"], 0)

    def test_a_dry_run_checks_what_was_asked_for_without_the_gpu(self):
        done = self.bench("--model", "gpt2-345m", "--dry-run", device="cuda:0")
        line = json.loads(done.stdout)
        self.assertEqual((done.returncode, line["error"], line["dry_run"]), (0, None, True), done.stderr)
        self.assertGreater(line["parameters"], 300_000_000)
        self.assertNotIn("losses", line)
        for words in (["--model", "gpt7"], ["--mode", "sideways"], ["--model", "llama2-7b-blocks:x"]):
            wrong = self.bench(*words, "--dry-run", device="cuda:0")
            error = json.loads(wrong.stdout)["error"]
            self.assertEqual(wrong.returncode, 1, words)
            self.assertIn(words[1], error)  # what is wrong

    def test_qpo_has_nearly_the_losses_of_plain(self):
        words = ["--model", "tiny", "--steps", "2", "--warmup", "1"]
        plain = self.line(*words)
        line = self.line(*words, "--mode", "qpo", *MODES["spillway"])
        self.assertGreater(line["out_bytes_a_step"], 0)
        self.assertNotEqual(line["gradient_hash"], plain["gradient_hash"])
        for ours, theirs in zip(line["losses"], plain["losses"], strict=True):
            self.assertAlmostEqual(ours, theirs, delta=0.02 * abs(theirs))

    def test_a_folder_instead_of_host_memory(self):
        words = ["--model", "tiny", "--steps", "2", "--warmup", "1"]
        plain = self.line(*words)
        line = self.line(*words, "--mode", "spillway", "--budget", "7000000", "--nvme", self.path(""),
                         "--nvme-budget", "100000000")
        self.assertGreater(line["nvme_peak_bytes"], 0)
        self.assertEqual((line["host_peak_bytes"], line["nvme_budget_bytes"]), (0, 100000000))
        for name in ("losses", "gradient_hash", "gradient_norms"):
            self.assertEqual(line[name], plain[name])

    def test_other_weights_have_another_hash(self):
        words = ["--model", "tiny", "--precision", "fp32", "--warmup", "0"]
        self.assertNotEqual(self.line(*words, "--steps", "1")["gradient_hash"],
                            self.line(*words, "--steps", "2")["gradient_hash"])

    def test_a_failure_is_a_line_too(self):
        done = self.bench("--model", "tiny", "--mode", "spillway", "--budget", "4096")
        self.assertEqual(done.returncode, 1)
        line = json.loads(done.stdout)
        self.assertIn("of 4.0 KiB", line["error"])
        self.assertEqual((line["mode"], line["budget_bytes"]), ("spillway", 4096))
        self.assertIn("not one of", json.loads(self.bench("--mode", "magic").stdout)["error"])

    def test_ceilings_have_every_rate(self):
        line = self.line("--ceilings", "1000000")
        self.assertEqual(line["kind"], "ceilings")
        for name in ("out_pinned", "in_pinned", "both_ways_pinned", "out_pageable", "in_pageable"):
            self.assertGreater(line[f"{name}_bytes_per_s"], 0)

    def test_devices_that_there_are_not(self):
        for device, code in (("tpu", 2), ("cuda:99", 77)):
            done = self.bench(device=device)
            self.assertEqual((done.returncode, done.stdout), (code, ""))
            self.assertIn(f"--device {device}: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
