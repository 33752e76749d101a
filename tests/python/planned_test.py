# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Every policy that makes a plan, in a real training: the bits of plain training, and what was foretold."""

import contextlib
import json
import os
import pathlib
import unittest
from typing import Any

import spillway
import torch
from same_bits import Case, bits, noise, seeded

LAYERS, WIDTH, ROWS, STEPS = 6, 128, 1024, 5
PLANNED = [policy.name for policy in spillway.policies() if policy.plans]


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def model() -> torch.nn.Module:
    return torch.nn.Sequential(*(Block() for _ in range(LAYERS)))


def loss_of(net: Any, step: int) -> torch.Tensor:
    return net(noise(ROWS, WIDTH, step=step)).square().mean()


class Planned(Case):
    known: dict[str, Any] = {}  # the same for all tests, made once

    def under(self, policy: str, budget: int | str = "1GiB", make: Any = model, **options: Any) -> tuple[list[str], spillway.Report]:
        net = seeded(make)
        session = self.open(net, budget, policy=policy, **options)
        seen = self.train(net, loss_of, lambda: session, steps=STEPS)
        report = session.report()
        session.close()
        return seen, report

    def plain(self) -> list[str]:
        if "plain" not in self.known:
            self.known["plain"] = self.train(seeded(model), loss_of, steps=STEPS)
        return self.known["plain"]

    def share_of_peak(self, share: float) -> int:
        """So much of the peak with room for all."""
        if "peak" not in self.known:
            self.known["peak"] = self.under("online")[1]["device_peak_bytes"]
        return int(share * self.known["peak"])

    def test_each_plan_runs_with_the_bits_of_plain_training(self) -> None:
        budget = self.share_of_peak(0.75)
        for policy in PLANNED:
            with self.subTest(policy):
                seen, report = self.under(policy, budget)
                self.assertEqual(seen, self.plain())
                self.assertLessEqual(report["device_peak_bytes"], budget)
                plan = report["plan"]
                if plan["refusal"]:
                    self.assertIn("it needs convolutions", plan["refusal"])
                    continue
                self.assertEqual((plan["policy"].partition(" (")[0], plan["steps"]), (policy, STEPS - 3))  # auto says whose
                self.assertGreater(plan["foretold_step_ns"], 0)
                self.assertGreater(plan["recorded_step_ns"], 0)
                if not report["stored_bytes"]:  # else it hangs on the drive; tests/late holds that peak in virtual time
                    self.assertLessEqual(plan["peak_bytes"], 1.03 * plan["foretold_peak_bytes"])
                self.assertGreater(report["loaded_bytes"] + report["recomputed_bytes"], 0)

    def test_measuring_the_drive_is_no_move(self) -> None:
        session = self.open(seeded(model), "1GiB", policy="te")
        report = session.report()
        self.assertEqual((report["stored_bytes"], report["loaded_bytes"], report["nvme_peak_bytes"]), (0, 0, 0))

    def test_a_plan_makes_again_what_a_slow_link_does_not_hide(self) -> None:
        budget = self.share_of_peak(0.75)
        seen, report = self.under("capuchin", budget, nvme_rate="10MB")
        self.assertEqual(seen, self.plain())
        self.assertEqual(report["plan"]["refusal"], "")
        self.assertGreater(report["recomputed_values"], 0)

    def entered_for_all(self, net: torch.nn.Module, reports_steps: bool) -> tuple[list[str], spillway.Report]:
        """One `with` around the whole training, whose steps the session has to find by itself, or is told of."""
        budget = self.share_of_peak(0.75)
        session = self.open(net, budget, policy="te")
        optimizers = [torch.optim.SGD(half, lr=0.01) for half in (list(net.parameters())[::2], list(net.parameters())[1::2])]
        with session:
            for step in range(STEPS):
                loss_of(net, step).backward()
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
                if reports_steps:
                    session.step()
        report = session.report()
        session.close()
        return bits(net.parameters()), report

    def test_in_a_session_that_stays_entered_a_forward_after_an_optimizer_s_step_begins_the_next(self) -> None:
        told, with_steps = self.entered_for_all(seeded(model), True)
        found, without = self.entered_for_all(seeded(model), False)
        self.assertEqual(found, told)
        self.assertEqual(found, self.plain()[-len(found):])
        self.assertEqual((without["plan"]["refusal"], without["plan"]["steps"]), ("", STEPS - 3))
        self.assertEqual(with_steps["plan"]["refusal"], "")
        self.assertGreater(without["loaded_bytes"], 0)

    def test_delta_chooses_at_run_time_and_makes_again(self) -> None:
        budget = self.share_of_peak(0.7)
        seen, report = self.under("delta", budget)
        self.assertEqual(seen, self.plain())
        self.assertLessEqual(report["device_peak_bytes"], budget)
        self.assertGreater(report["stored_bytes"] + report["recomputed_bytes"], 0)

    def by_hand(self, fate: dict[str, Any], producer: str | None = None) -> str:
        """The file of a plan for what the training's steps save: this fate for all values, or for those of one operator."""
        trace, plan = os.path.join(self.folder, "step.json"), os.path.join(self.folder, "plan.json")
        net = seeded(model)
        session = self.open(net, "1GiB", recompute="on")
        session.trace(trace)
        self.train(net, loss_of, lambda: session, steps=3)
        session.close()
        slots = [value["slot"] for value in json.loads(pathlib.Path(trace).read_text())["values"]]
        chosen = [slot for slot in slots if producer in (None, slot["producer"])]
        self.assertGreaterEqual(len(chosen), LAYERS)
        leaves = {"leaves": slots[-1]} if fate["fate"] == "move" else {}
        pathlib.Path(plan).write_text(json.dumps({
            "spillway_plan": 3, "policy": "by hand", "device_bytes": 0, "predicted_step_ns": 7, "predicted_peak_bytes": 8, "bound_step_ns": 0,
            "fates": [{"slot": slot, **fate, **leaves} for slot in chosen]}))
        return plan

    def check_ran(self, plan: str, counter: str) -> None:
        seen, report = self.under("online", plan=plan)  # whose budget has room for all: what goes, the plan says
        self.assertEqual(seen, self.plain())
        ran = report["plan"]
        self.assertEqual((ran["policy"], ran["refusal"], ran["steps"]), ("by hand", "", STEPS - 1))
        self.assertEqual((ran["foretold_step_ns"], ran["foretold_peak_bytes"], ran["recorded_step_ns"]), (7, 8, 0))
        self.assertGreater(report[counter], 0)
        self.assertRegex(str(report), rf"(?m)^plan +by +by hand +{STEPS - 1} steps")
        self.assertNotIn("slower than the recorded step", str(report))

    def test_a_plan_from_a_file_runs_from_the_first_step_on(self) -> None:
        self.check_ran(self.by_hand({"fate": "move", "pool": "nvme"}), "loaded_bytes")

    def test_a_plan_from_a_file_has_values_made_again(self) -> None:
        self.check_ran(self.by_hand({"fate": "recompute"}, "GeluBackward0"), "recomputed_values")

    def test_a_plan_that_cannot_run_is_refused_before_a_step(self) -> None:
        plan = os.path.join(self.folder, "by_hand.json")
        fields: dict[str, Any] = {"spillway_plan": 3, "policy": "", "device_bytes": 0, "predicted_step_ns": 0, "predicted_peak_bytes": 0,
                                  "bound_step_ns": 0, "fates": [{"slot": {"producer": "aten::gelu", "output": 0, "occurrence": 0},
                                                                 "fate": "move", "pool": "nvme"}]}
        for text, options, says in (
                (None, {}, "plan: '.*by_hand.json': No such file or directory"),
                (json.dumps(fields)[:50], {}, "plan: '.*by_hand.json': "),
                (json.dumps({**fields, "spillway_plan": 9}), {}, "is of format version 9"),
                (json.dumps(fields), {"policy": "te:layers=2"}, "plan: it stands in place of policy=, which is 'te:layers=2'"),
                (json.dumps(fields), {"nvme": None}, "plan: '.*by_hand.json' moves saved tensors to NVMe, and there is no folder")):
            if text is not None:
                pathlib.Path(plan).write_text(text)
            with self.subTest(says), self.assertRaisesRegex(spillway.OptionError, says):
                self.open(model(), "1GiB", plan=plan, **options)
        pathlib.Path(plan).write_text(json.dumps(fields))
        seen, report = self.under("online", plan=plan)
        self.assertEqual(seen, self.plain())
        self.assertEqual(report["plan"]["policy"], plan)  # it says of no policy that made it

    def test_transformer_engines_points_show_below_the_budget(self) -> None:
        """At most L - N sets of a layer's tensors are on the device, though the budget has room for all."""
        peaks = {}
        for layers in (1, 2, 4):
            _, report = self.under(f"te:layers={layers}")
            self.assertEqual(report["plan"]["policy"], f"te:layers={layers}")
            peaks[layers] = report["plan"]["peak_bytes"]
        a_set = 4 * ROWS * WIDTH * 5  # norm's input and output, up's and gelu's outputs
        self.assertAlmostEqual(peaks[1] - peaks[2], a_set, delta=0.3 * a_set)
        self.assertAlmostEqual(peaks[2] - peaks[4], 2 * a_set, delta=0.4 * a_set)

    def test_a_plan_under_a_tight_budget_keeps_it(self) -> None:
        budget = self.share_of_peak(0.7)
        seen, report = self.under("te:layers=4", budget)
        self.assertEqual(seen, self.plain())
        self.assertLessEqual(report["device_peak_bytes"], budget)
        self.assertEqual(report["plan"]["refusal"], "")

    def test_a_model_without_layers_goes_on_under_online_and_says_why(self) -> None:
        _, report = self.under("te", make=lambda: torch.nn.Linear(WIDTH, WIDTH))
        self.assertIn("three repeated layers", report["plan"]["refusal"])
        self.assertRegex(str(report), r"(?m)^plan +none +te +.*three repeated layers")

    def test_after_an_evaluation_or_an_exception_a_later_step_is_planned(self) -> None:
        def fails(net: torch.nn.Module) -> None:
            net(noise(ROWS, WIDTH))
            raise KeyError("in forward")

        def evaluates(net: torch.nn.Module) -> None:
            with torch.no_grad():
                net(noise(ROWS, WIDTH))

        for policy in ("te:layers=2", "recompute_all"):
            for other in (evaluates, fails):
                with self.subTest(policy=policy, other=other.__name__):
                    net = seeded(model)
                    session = self.open(net, "1GiB", policy=policy)
                    for step in range(7):
                        with contextlib.suppress(KeyError), session:
                            if step == 1:
                                other(net)
                            loss = loss_of(net, step)
                        if step != 1 or other is evaluates:
                            loss.backward()
                    report = session.report()
                    self.assertEqual((report["plan"]["refusal"], report["plan"]["policy"]), ("", policy))
                    self.assertGreater(report["plan"]["steps"], 0)
                    session.close()

    def test_the_table_says_what_was_foretold_and_what_came_of_it(self) -> None:
        _, report = self.under("te:layers=2")
        self.assertRegex(str(report), r"(?m)^plan +by +te:layers=2 +2 steps\n +step foretold +\d+\.\d+ s\n +peak foretold +[\d.]+ MiB")

    def test_a_policys_parameters_are_checked_when_it_opens(self) -> None:
        for text, says in (("te:depth=3", "no parameter 'depth'; it has layers"), ("te:layers=x", "not a whole number from 0"),
                           ("online:layers=1", "makes no plan"), ("tee", "unknown policy 'tee'")):
            with self.subTest(text), self.assertRaisesRegex(spillway.OptionError, says):
                self.open(model(), "1GiB", policy=text)


if __name__ == "__main__":
    unittest.main()
