# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Training on a GPU as a user does it. Every case is skipped, with the reason, where there is none."""

import functools
import subprocess
import unittest

from harness import PLAIN, PROGRAM, SMALL, TINY, InFolder


@functools.cache
def why_no_gpu() -> str:
    """The program's own words, from a run that ends before anything is made."""
    asked = subprocess.run([PROGRAM, "train", *TINY, "--device", "cuda:99"], capture_output=True,
                           text=True, check=False).stderr.strip()
    return "" if "CUDA device" in asked else asked


# What can leave is most of its peak, beside which cuBLAS's workspace and torch's segments are small.
MANY = [*SMALL, "--batch", "64"]


class Gpu(InFolder):
    def setUp(self):
        if why_no_gpu():
            self.skipTest(why_no_gpu())
        super().setUp()

    def assert_near(self, one: list[float], other: list[float]):
        self.assertEqual(len(one), len(other))
        for a, b in zip(one, other):
            self.assertAlmostEqual(a, b, delta=2e-3 * abs(b))

    def test_losses_are_near_those_of_the_cpu(self):
        for style in ("gpt2", "llama2"):
            words = [*TINY, "--style", style, "--steps", "5"]
            gpu = self.trained(*words, "--device", "cuda", program=PLAIN)
            self.assert_near(gpu["losses"], self.trained(*words, program=PLAIN)["losses"])

    def test_results_name_the_device_and_what_its_allocator_says(self):
        gpu = self.trained(*TINY, "--steps", "2", "--device", "cuda", "--precision", "bf16")
        self.assertEqual(gpu["device"], "cuda:0")
        self.assertGreater(gpu["device_allocated_peak_bytes"], 0)
        self.assertGreaterEqual(gpu["device_reserved_peak_bytes"], gpu["device_allocated_peak_bytes"])
        self.assertIsNone(gpu["allocator_peak_bytes"])

    def test_count_allocations_is_what_the_allocator_says(self):
        gpu = self.trained(*TINY, "--steps", "2", "--device", "cuda", "--count-allocations")
        self.assertEqual(gpu["allocator_peak_bytes"], gpu["device_allocated_peak_bytes"])

    def test_a_checkpoint_of_the_gpu_goes_on_there_and_on_the_cpu(self):
        words = [*TINY, "--dropout", "0.1"]
        whole = self.trained(*words, "--device", "cuda", "--steps", "6")
        self.trained(*words, "--device", "cuda", "--steps", "3", "--checkpoint", "ckpt")
        there = self.trained(*words, "--device", "cuda", "--steps", "6", "--resume", "ckpt")
        self.assert_near(there["losses"], whole["losses"][3:])
        here = self.trained(*TINY, "--steps", "4", "--resume", "ckpt")
        self.assertEqual((here["device"], here["first_step"]), ("cpu", 3))

    def test_a_run_under_a_budget_keeps_it_and_has_the_losses_of_a_plain_one(self):
        words = [*MANY, "--steps", "3", "--device", "cuda"]
        plain = self.trained(*words)
        budget = plain["device_allocated_peak_bytes"] * 3 // 4  # of which torch's workspaces are a part
        capped = self.trained(*words, "--device-budget", str(budget), "--host-budget", "1GiB")
        self.assert_near(capped["losses"], plain["losses"])
        self.assertLessEqual(capped["report"]["device_peak_bytes"], budget)
        self.assertLessEqual(capped["report"]["device_resident_peak_bytes"], budget)
        self.assertGreater(capped["report"]["stored_bytes"], 0)
        self.assertGreater(capped["report"]["loaded_bytes"], 0)

    def test_what_leaves_encoded_has_nearly_the_losses_of_a_plain_run(self):
        words = [*MANY, "--steps", "3", "--device", "cuda"]
        plain = self.trained(*words)
        budget = plain["device_allocated_peak_bytes"] * 3 // 4
        coded = self.trained(*words, "--device-budget", str(budget), "--host-budget", "1GiB", "--policy", "qpo", "--lossy")
        for ours, theirs in zip(coded["losses"], plain["losses"], strict=True):
            self.assertAlmostEqual(ours, theirs, delta=0.05 * abs(theirs))
        self.assertLessEqual(coded["report"]["device_peak_bytes"], budget)
        rows = {row["tensor_class"]: row for row in coded["report"]["codecs"]}
        self.assertLess(rows["linear_input"]["bits"], 5)
        self.assertTrue(0 < rows["linear_input"]["relative_l2_error"] < 0.2, rows["linear_input"])

    def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(self):
        self.assert_refused(["train", "--device", "cuda:99"], ["--device cuda:99: there ", "CUDA device"])


if __name__ == "__main__":
    unittest.main()
