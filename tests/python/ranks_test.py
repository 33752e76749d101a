# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Which rank a process is, and what ranks of one machine share: a folder for what leaves, and no file in it."""

import os
import subprocess
import sys
import unittest
from unittest import mock

import torch
from spillway.session import _rank

import same_bits

LAUNCHERS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "LOCAL_RANK")

# One step, which waits between forward and backward; then the bits of the gradients.
STEP = """
import contextlib
import sys
import spillway, torch
import same_bits

net = same_bits.seeded(lambda: torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(12)]))
budget = sys.argv[1]
session = spillway.session(net, device_budget=budget, nvme=sys.argv[2]) if budget else contextlib.nullcontext()
with session:
    loss = net(same_bits.noise(1024, 256, step=int(sys.argv[3]))).square().mean()
print(session.report()["stored_bytes"] if budget else 0, flush=True)
sys.stdin.readline()
loss.backward()
print(*same_bits.gradients(net))
"""


class Ranks(same_bits.Case):
    def step(self, budget: str, rank: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", STEP, budget, self.folder, str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"RANK": str(rank), "PYTHONPATH": os.pathsep.join(sys.path)})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_ranks_as_launchers_tell_them(self):
        for name in LAUNCHERS:
            with self.subTest(name), mock.patch.dict(os.environ, {name: "3"}, clear=True):
                self.assertEqual(_rank(), 3)

    def test_without_a_launcher_it_is_the_first(self):
        for environment in ({}, {"RANK": ""}, {"RANK": "first"}, {"RANK": "-1"}, {"WORLD_SIZE": "4"}):
            with self.subTest(environment), mock.patch.dict(os.environ, environment, clear=True):
                self.assertEqual(_rank(), 0)

    def test_the_rank_among_all_goes_before_the_one_on_its_machine(self):
        with mock.patch.dict(os.environ, {"LOCAL_RANK": "1", "RANK": "5"}, clear=True):
            self.assertEqual(_rank(), 5)

    def test_torch_goes_before_the_launcher(self):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        with mock.patch.dict(os.environ, {"RANK": "3"}, clear=True):
            self.assertEqual(_rank(), 0)

    def test_ranks_that_share_a_folder_do_not_share_what_is_in_it(self):
        ranks = [self.step("10MiB", rank) for rank in (0, 1)]
        for process in ranks:
            self.assertGreater(int(process.stdout.readline()), 0)
        self.assertEqual(os.listdir(self.folder), [])  # both have stored: their files have no names
        told = [process.communicate("\n")[0] for process in ranks]
        for rank, process in enumerate(ranks):
            self.assertEqual(process.returncode, 0)
            plain = self.step("", rank)
            self.assertEqual(plain.communicate("\n")[0].splitlines()[1:], told[rank].splitlines())
        self.assertNotEqual(told[0], told[1])


if __name__ == "__main__":
    unittest.main()
