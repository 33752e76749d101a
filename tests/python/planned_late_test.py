# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Every policy that makes a plan on the late accelerator, whose kernels and copies run as late as they may: the bits of plain training there, the
peak that was foretold, and no fault of order."""

import os
import pathlib
import sys
import unittest
from collections.abc import Callable
from typing import Any

import spillway
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "semantics"))

import systems  # noqa: E402
from blocks_test import BLOCKS, Perceptron, Residual  # noqa: E402
from same_bits import Case, bits, noise, seeded  # noqa: E402

STEPS = 4
PLANNED = [policy.name for policy in spillway.policies() if policy.plans]
QUICK = os.environ.get("SPILLWAY_TESTS") == "quick"
FEW = ("auto", "te", "tba", "capuchin", "recompute_all", "superneurons", "str")  # of each kind one


def perceptrons() -> torch.nn.Module:
    return torch.nn.Sequential(*(Perceptron() for _ in range(BLOCKS)))


def convolutions() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), *(Residual() for _ in range(BLOCKS // 2)))


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "perceptrons": (perceptrons, (512, 128)), "convolutions": (convolutions, (4, 3, 32, 32))}


@unittest.skipUnless(systems.LATE_LIBRARY.exists(), f"the late accelerator is not built here: {systems.LATE_LIBRARY}")
class PlannedLate(Case):
    @classmethod
    def setUpClass(cls) -> None:
        systems.device_of(systems.SpillwayLate)
        cls.models = {name: (cls.trained(name)[0], cls.peak(name)) for name in MODELS}

    @staticmethod
    def trained(name: str, session: spillway.Session | None = None, net: Any = None) -> tuple[list[str], Any]:
        make, shape = MODELS[name]
        net = net or seeded(make).to("late")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        seen = []
        for step in range(STEPS):
            with session or torch.enable_grad():
                loss = net(noise(*shape, step=step).to("late")).square().mean()
            loss.backward()
            gradients = [parameter.grad.cpu() for parameter in net.parameters()]
            seen += [*bits([loss.cpu()]), *bits(gradients)]
            optimizer.step()
            optimizer.zero_grad()
        return seen + bits(each.detach().cpu() for each in (*net.parameters(), *net.buffers())), net

    @classmethod
    def peak(cls, name: str) -> int:
        net = seeded(MODELS[name][0]).to("late")
        with spillway.session(net, device_budget="1GiB", policy="keep_all", host_budget="64MiB") as session:
            pass
        cls.trained(name, session, net)
        peak = session.report()["device_peak_bytes"]
        session.close()
        return int(peak)

    def check(self, name: str, policy: str) -> None:
        plain, kept = self.models[name]
        budget = int(0.8 * kept)
        net = seeded(MODELS[name][0]).to("late")
        session = spillway.session(net, device_budget=budget, policy=policy, host_budget="64MiB")
        try:
            seen, _ = self.trained(name, session, net)
            report = session.report()
        finally:
            session.close()
        self.assertEqual(seen, plain)
        self.assertEqual(torch.ops.late.faults(), [])
        self.assertLessEqual(report["device_peak_bytes"], budget)
        self.assertGreater(report["loaded_bytes"] + report["recomputed_bytes"], 0)
        plan = report["plan"]
        if not plan["policy"]:  # it chooses at run time
            self.assertEqual(policy, "delta")
            return
        if plan["refusal"]:
            self.assertRegex(plan["refusal"], "it needs convolutions|GiB|MiB|KiB")
            return
        self.assertEqual(plan["policy"].partition(" ")[0], policy)  # "auto (str)"
        if not report["stored_bytes"]:  # else it hangs on the host's threads
            self.assertLessEqual(plan["peak_bytes"], 1.03 * plan["foretold_peak_bytes"])

    def test_perceptrons(self) -> None:
        for policy in FEW if QUICK else PLANNED:
            with self.subTest(policy):
                self.check("perceptrons", policy)

    def test_convolutions(self) -> None:
        for policy in ("vdnn_conv", "pofo") if QUICK else PLANNED:
            with self.subTest(policy):
                self.check("convolutions", policy)

    def test_delta_chooses_at_run_time(self) -> None:
        for name in MODELS:
            with self.subTest(name):
                self.check(name, "delta")


if __name__ == "__main__":
    unittest.main()
