# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Which budget, and which policy: foretold from one recorded step of a user's own model."""

import contextlib
import copy
import importlib.util
import io
import json
import os
import pathlib
import tempfile
import unittest
import unittest.mock
import warnings
from typing import Any

import spillway
import torch
from same_bits import Case, bits, gradients, noise, seeded, standard_error
from spillway import planning

LAYERS, WIDTH, ROWS = 6, 64, 256


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.dropout(self.down(torch.nn.functional.gelu(self.up(self.norm(x)))), 0.1, self.training)


class Planning(Case):
    measured: dict[str, Any] = {}  # once for all tests

    def setUp(self) -> None:
        super().setUp()
        self.net = seeded(lambda: torch.nn.Sequential(*(Block() for _ in range(LAYERS))))
        self.batch = noise(ROWS, WIDTH)

    def step(self) -> torch.Tensor:
        return self.net(self.batch).square().mean()

    def machine(self, **rates: Any) -> dict[str, Any]:
        """With a fast link, so that no answer depends on this one's disk."""
        rate = {"rate_bytes_per_s": 1e10, "both_ways_rate_bytes_per_s": 1e10, "latency_ns": 1000, **rates}
        if not self.measured:
            self.measured.update(spillway.probe(nvme=self.folder, nvme_budget="1GiB"))
        machine = copy.deepcopy(self.measured)
        for link in machine["links"]:
            link.update(rate)
        return machine

    def test_a_probe_measures_the_folder_both_ways(self) -> None:
        machine = spillway.probe(nvme=self.folder, nvme_budget="64MiB")
        self.assertEqual({tier["pool"]: tier["capacity_bytes"] for tier in machine["tiers"]}["nvme"], 64 << 20)
        self.assertEqual(len(machine["links"]), 2)
        for link in machine["links"]:
            self.assertGreater(link["both_ways_rate_bytes_per_s"], 0)
            self.assertLessEqual(link["both_ways_rate_bytes_per_s"], link["rate_bytes_per_s"])

    def test_a_probe_measures_how_fast_the_device_multiplies_and_draws_no_random_number(self) -> None:
        before = torch.get_rng_state()
        device = spillway.probe(self.net, nvme=self.folder, nvme_budget="64MiB")["device"]
        self.assertGreater(device["flop_per_s"]["float32"], 0)
        self.assertEqual(device["flop_per_s"]["half"], 0)  # not measured on the CPU
        self.assertTrue(0 <= device["interference"] <= 0.9)
        self.assertGreater(min(device["codec_bytes_per_s"].values()), 0)
        self.assertTrue(torch.equal(torch.get_rng_state(), before))

    def test_the_device_of_a_probe_has_this_machines_memory(self) -> None:
        device = next(tier for tier in spillway.probe()["tiers"] if tier["pool"] == "device")
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # a cgroup may have less
        self.assertTrue(0 < device["capacity_bytes"] <= there, f"{device} of {there}")

    def test_the_rate_and_the_kind_of_folder_reach_the_probe_and_the_sessions(self) -> None:
        slow, probes, sessions = 50 << 20, [], []

        def probe(_model: Any, **places: Any) -> dict[str, Any]:
            probes.append(places)
            return self.machine()

        with unittest.mock.patch.object(planning, "probe", probe), \
                unittest.mock.patch.object(planning, "_measure", lambda _model, _step, _row, places: sessions.append(places) or [1.0]):
            spillway.fit(self.net, self.step, nvme=self.folder, nvme_budget="64MiB", nvme_rate=slow)
            spillway.compare(self.net, self.step, policies=["te"], budgets=["64MiB"], nvme=self.folder, nvme_budget="64MiB",
                             nvme_allow_tmpfs=True, nvme_rate=slow, real=True)
        self.assertEqual([(places["nvme_rate"], places["nvme_allow_tmpfs"]) for places in probes], [(slow, False), (slow, True)])
        self.assertEqual({(places["nvme_rate"], places["nvme_allow_tmpfs"]) for places in sessions}, {(slow, True)})

    def test_fit_goes_from_the_peak_down_to_the_smallest_budget_that_works(self) -> None:
        curve = spillway.fit(self.net, self.step, machine=self.machine())
        self.assertLess(curve.floor_bytes, 0.6 * curve.peak_bytes)
        self.assertEqual({row["policy"] for row in curve.rows}, {"online"})
        self.assertTrue(all(row["refusal"] == "" and row["peak_bytes"] <= row["device_bytes"] for row in curve.rows))
        self.assertIn("online", str(curve))

    def test_what_fit_foretells_is_the_smallest_budget_that_training_needs(self) -> None:
        curve = spillway.fit(self.net, self.step, nvme=self.folder)
        session = self.open(self.net, int(1.1 * curve.floor_bytes))
        self.train(self.net, lambda net, _: self.step(), lambda: session)
        self.assertLessEqual(session.report()["device_peak_bytes"], 1.1 * curve.floor_bytes)

    def test_compare_has_a_row_for_each_policy_and_budget(self) -> None:
        table = spillway.compare(self.net, self.step, policies=["online", "te:layers=3", "rotor"], budgets=["8MiB", 4 << 20],
                                 machine=self.machine())
        self.assertEqual([(row["policy"], row["device_bytes"]) for row in table.rows],
                         [(policy, budget) for policy in ("online", "te:layers=3", "rotor") for budget in (8 << 20, 4 << 20)])

    def test_for_real_it_says_what_each_took_beside_what_was_foretold(self) -> None:
        before = gradients(self.net) + bits(self.net.buffers())
        table = spillway.compare(self.net, self.step, policies=["te", "rotor", "vdnn_conv"], budgets=["64MiB"], nvme=self.folder,
                                 real=True)
        self.assertEqual([row["policy"] for row in table.rows if "measured_step_ns" in row], ["te", "rotor"])
        for row in table.rows[:2]:
            self.assertEqual(row["measured_refusal"], "")
            self.assertGreater(row["measured_step_ns"], 0)
            most = row["device_bytes"] if row["stored_bytes"] else 1.03 * row["peak_bytes"]  # the drive may be late
            self.assertLessEqual(row["measured_peak_bytes"], most)
        self.assertIn("measured here", str(table))
        self.assertEqual(json.loads(table.to_json())["rows"], table.rows)
        self.assertEqual(gradients(self.net) + bits(self.net.buffers()), before)

    def test_a_map_that_a_relu_gives_to_a_convolution_is_that_ones_input_and_of_a_layer(self) -> None:
        net = seeded(lambda: torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.ReLU())
                                                   for _ in range(6))))
        images, file = noise(4, 8, 32, 32), pathlib.Path(self.folder, "trace.json")
        session = self.open(net, "1TiB")
        session.trace(file)
        for _ in range(3):
            with session:
                loss = net(images).square().mean()
            loss.backward()
        session.close()
        maps = json.loads(file.read_text())["values"]
        self.assertEqual([each.get("classes", each.get("class")) for each in maps],
                         [["relu_output", "convolution_input"]] * 5 + [["relu_output", "other"]])
        table = spillway.compare(net, lambda: net(images).square().mean(), policies=["te:layers=2", "vdnn_conv"],
                                 machine=self.machine())
        for row in table.rows:
            self.assertEqual(row["refusal"], "")
            self.assertGreater(row["stored_bytes"], 0)

    def recording(self, reports: list[spillway.Report]) -> Any:
        """Keeps what each session that records says at its end."""
        class Seen(spillway.Session):
            def close(self) -> None:
                reports.append(self.report())
                super().close()

        return unittest.mock.patch.object(planning, "Session", Seen)

    def test_a_step_that_does_not_fit_is_recorded_under_a_budget(self) -> None:
        whole = spillway.fit(self.net, self.step, machine="h100")
        budget, reports = int(0.7 * whole.peak_bytes), []
        places: list[dict[str, Any]] = [{"nvme": self.folder}, {"machine": "h100"}]  # on the second it is made again
        for number, place in enumerate(places):
            with self.subTest(place), self.recording(reports):
                curve = spillway.fit(self.net, self.step, device_budget=budget, **place)
                self.assertLessEqual(reports[number]["device_peak_bytes"], budget)
                self.assertGreater(reports[number]["loaded_bytes"] + reports[number]["recomputed_bytes"], 0)
                self.assertAlmostEqual(curve.peak_bytes, whole.peak_bytes, delta=0.05 * whole.peak_bytes)
                self.assertGreater(len(curve.rows), 5)
                self.assertEqual({row["refusal"] for row in curve.rows}, {""})
                self.assertIn(f"note: recorded under a device budget of {budget}: ", str(curve))
        self.assertNotIn("recorded under", str(whole))

    def test_a_step_recorded_under_a_budget_has_the_recipes_of_layers(self) -> None:
        peak = spillway.fit(self.net, self.step, machine="h100").peak_bytes
        table = spillway.compare(self.net, self.step, policies=["rotor"], budgets=[int(0.6 * peak)], device_budget=int(0.7 * peak),
                                 nvme=self.folder)
        self.assertEqual(table.rows[0]["refusal"], "")
        self.assertGreater(table.rows[0]["recomputed_bytes"], 0)
        self.assertIn("recorded under", str(table))

    def test_a_budget_that_cannot_record_the_step_is_refused_by_its_session(self) -> None:
        before = gradients(self.net) + bits(self.net.buffers())
        for place in ({"nvme": self.folder}, {"machine": "h100"}):
            with self.subTest(place), standard_error() as said, \
                    self.assertRaisesRegex(torch.OutOfMemoryError, "asked for .* at least .* are needed so far"):
                spillway.fit(self.net, self.step, device_budget="1600KiB", **place)  # type: ignore[arg-type]
            self.assertEqual(said, [])
        with self.assertRaisesRegex(spillway.BudgetError, "^device_budget: "):
            spillway.compare(self.net, self.step, device_budget="1KiB", machine="h100")
        self.assertEqual(gradients(self.net) + bits(self.net.buffers()), before)

    def test_a_row_has_the_bound_of_its_plan(self) -> None:
        table = spillway.compare(self.net, self.step, policies=["auto", "tba"], budgets=["64MiB"], machine=self.machine())
        of_auto, of_tba = table.rows
        self.assertTrue(0 < of_auto["bound_step_ns"] <= of_auto["step_ns"])
        self.assertEqual(of_tba["bound_step_ns"], 0)

    def test_policies_say_what_their_parameters_mean(self) -> None:
        listed = {policy.name: policy.parameters for policy in spillway.policies()}
        self.assertEqual(listed["te"], {"layers": "how many leave, of the first; 0: all but two"})
        self.assertEqual(list(listed["swapadvisor"]), ["seed", "generations", "population"])
        self.assertEqual(listed["online"], {})

    def test_for_real_the_policies_are_measured_in_turn(self) -> None:
        with unittest.mock.patch.object(planning, "_measure", wraps=planning._measure) as measure:
            spillway.compare(self.net, self.step, policies=["te", "rotor"], budgets=["64MiB"], nvme=self.folder, real=True)
        rows = [call.args[2]["policy"] for call in measure.call_args_list]
        self.assertEqual(rows, ["te", "rotor"] * planning._TURNS)

    def test_for_real_it_says_how_many_are_left_and_about_how_long(self) -> None:
        took = {"online": [1.0], "te": [], "rotor": [1.0]}  # te does not run
        said = io.StringIO()
        with unittest.mock.patch.object(planning, "_measure", lambda _model, _step, row, _places: took[row["policy"]]), \
                unittest.mock.patch.object(planning.time, "perf_counter", iter(range(0, 1000, 60)).__next__), \
                contextlib.redirect_stderr(said):
            planning._measure_in_turn(self.net, self.step, [{"policy": name, "device_bytes": 64 << 20} for name in took], {})
        lines = [line.removeprefix("spillway: ").removesuffix(" under 64.0 MiB") for line in said.getvalue().splitlines()]
        self.assertEqual(lines, ["1 of 9: online", "2 of 9, about 8 min left: te", "3 of 7, about 5 min left: rotor",
                                 "4 of 7, about 4 min left: online", "5 of 7, about 3 min left: rotor",
                                 "6 of 7, about 2 min left: online", "7 of 7, about 60 s left: rotor"])
        self.assertEqual(planning._duration(5400), "1.5 h")

    def test_a_machine_is_measured_once_in_a_process(self) -> None:
        with unittest.mock.patch.object(planning, "probe", wraps=planning.probe) as probe:
            spillway.fit(self.net, self.step, nvme=self.folder, nvme_budget="64MiB")
            spillway.compare(self.net, self.step, policies=["te"], nvme=self.folder, nvme_budget="64MiB")
            self.assertEqual(probe.call_count, 1)
            spillway.fit(self.net, self.step, nvme=self.folder, nvme_budget="65MiB")
            self.assertEqual(probe.call_count, 2)  # another machine: less fits on its drive

    def test_a_folder_that_is_gone_is_missed_although_it_was_measured(self) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder) as gone:
            spillway.fit(self.net, self.step, nvme=gone, nvme_budget="32MiB")
        with self.assertRaisesRegex(spillway.Error, "nvme"):
            spillway.fit(self.net, self.step, nvme=gone, nvme_budget="32MiB")

    def test_without_a_place_to_move_to_only_what_makes_again_runs(self) -> None:
        table = spillway.compare(self.net, self.step)
        runs = {row["policy"] for row in table.rows if not row["refusal"]}
        self.assertIn("rotor", runs)
        self.assertNotIn("offload_all", runs)

    def test_the_model_and_the_random_numbers_are_as_before(self) -> None:
        self.step().backward()
        torch.manual_seed(3)

        def seen() -> list[str]:
            return gradients(self.net) + bits(self.net.parameters()) + bits(self.net.buffers()) + bits([torch.get_rng_state()])

        before = seen()
        spillway.fit(self.net, self.step, machine=self.machine())
        self.assertEqual(seen(), before)

    def test_a_step_may_run_its_backward_itself(self) -> None:
        def step() -> None:
            self.step().backward()

        itself = spillway.fit(self.net, step, machine=self.machine())
        self.assertEqual(itself.peak_bytes, spillway.fit(self.net, self.step, machine=self.machine()).peak_bytes)

    def test_a_step_may_run_its_optimizer_and_another_forward(self) -> None:
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.0)

        def step() -> None:
            for _ in range(2):
                self.step().backward()
                optimizer.step()

        self.assertGreater(spillway.fit(self.net, step, machine="h100").floor_bytes, 0)

    def test_it_is_saved_as_numbers_and_as_a_picture(self) -> None:
        curve = spillway.fit(self.net, self.step, machine=self.machine())
        numbers = pathlib.Path(self.folder, "fit.json")
        curve.save(numbers)
        self.assertEqual(json.loads(numbers.read_text())["rows"], curve.rows)
        with self.assertRaisesRegex(spillway.OptionError, "does not end with .svg"):
            curve.save("fit.html")
        picture = pathlib.Path(self.folder, "fit.svg")
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(spillway.OptionError, "pip install matplotlib"):
                curve.save(picture)
        else:
            curve.save(picture)
            self.assertIn("<svg", picture.read_text())

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "there is no matplotlib to draw with")
    def test_no_two_policies_look_alike_in_a_picture(self) -> None:
        from matplotlib.axes import Axes
        rows = [{"policy": policy.name, "device_bytes": 1 << 30, "step_ns": 1, "refusal": ""} for policy in spillway.policies()]
        table = spillway.Comparison("", json.dumps({"rows": rows, "compute_ns": 1, "peak_bytes": 1, "floor_bytes": 1}))
        with unittest.mock.patch.object(Axes, "plot", autospec=True, side_effect=Axes.plot) as plot:
            table.save(pathlib.Path(self.folder, "all.svg"))
        looks = {tuple(call.kwargs.get(name) for name in ("color", "marker", "linestyle")) for call in plot.call_args_list}
        self.assertEqual(len(looks), len(rows))

    def test_a_step_without_a_loss_is_refused_and_nothing_else_is_said(self) -> None:
        once = iter([self.step])
        steps: list[Any] = [lambda: None, lambda: self.step() and None, lambda: self.step().detach(), lambda: next(once, lambda: None)()]
        for step in steps:
            with self.subTest(), warnings.catch_warnings(), standard_error() as said:
                warnings.simplefilter("always")
                with self.assertRaisesRegex(spillway.OptionError, "^step: expected it to return the loss"):
                    spillway.fit(self.net, step, machine="h100")
            self.assertEqual(said, [])

    def test_a_value_that_cannot_be_is_an_OptionError(self) -> None:
        cases: list[tuple[str, str, Any]] = [
            ("policy", "no policy 'best'; there are", lambda: spillway.fit(self.net, self.step, policy="best", machine="h100")),
            ("policies", "no policy 'best'; there are", lambda: spillway.compare(self.net, self.step, policies=["best"], machine="h100")),
            ("policies", "'te': no parameter 'x'", lambda: spillway.compare(self.net, self.step, policies=["te:x=1"], machine="h100")),
            ("policies", "expected a name, got 3", lambda: spillway.compare(self.net, self.step, policies=[3], machine="h100")),  # type: ignore[list-item]
            ("budgets", "'much' is not a size", lambda: spillway.compare(self.net, self.step, budgets=["much"], machine="h100")),
            ("machine", "no such file, and no data sheet 'h1000'", lambda: spillway.compare(self.net, self.step, machine="h1000")),
            ("machine", "spillway_machine is missing", lambda: spillway.fit(self.net, self.step, machine={})),
        ]
        for option, says, call in cases:
            with self.subTest(says), self.assertRaises(spillway.OptionError) as caught:
                call()
            self.assertTrue(str(caught.exception).startswith(f"{option}: {says}"), str(caught.exception))
            self.assertEqual(caught.exception.option, option)

    def test_words_that_are_no_options(self) -> None:
        cases: list[tuple[str, Any]] = [
            (r"fit\(\) has no option 'polcy'; it has policy$", lambda: spillway.fit(self.net, self.step, polcy="te")),  # type: ignore[call-arg]
            (r"fit\(\) has no option 'x'; it has policy, machine,", lambda: spillway.fit(self.net, self.step, x=1)),  # type: ignore[call-arg]
            (r"compare\(\) has no option 'budget'; it has budgets, device_budget, host_budget", lambda: spillway.compare(self.net, self.step, budget=1)),  # type: ignore[call-arg]
            (r"probe\(\) has no option 'nmve'; it has nvme", lambda: spillway.probe(nmve=self.folder)),  # type: ignore[call-arg]
        ]
        for says, call in cases:
            with self.subTest(says), self.assertRaisesRegex(TypeError, says):
                call()
        spillway.fit(model=self.net, step=self.step, machine="h100")

    def test_what_is_wrong_is_said_in_one_line(self) -> None:
        machine = self.machine()
        cases: list[tuple[str, Any]] = [
            ("no policy 'best'", lambda: spillway.fit(self.net, self.step, policy="best", machine=machine)),
            ("step: expected a function", lambda: spillway.fit(self.net, 3, machine=machine)),  # type: ignore[arg-type]
            ("it returned float", lambda: spillway.fit(self.net, lambda: self.step().item(), machine=machine)),  # type: ignore[arg-type, return-value]
            ("a loss of one number, got a tensor of \\[256, 64\\]", lambda: spillway.fit(self.net, lambda: self.net(self.batch), machine=machine)),
            ("model: none of its parameters", lambda: spillway.fit(torch.nn.Linear(2, 2), self.step, machine=machine)),
            ("no parameter has a gradient", lambda: spillway.fit(self.net, lambda: None, machine=machine)),
            ("holds nothing", lambda: spillway.compare(self.net, self.step, budgets=[0], machine=machine)),
            ("expected a name", lambda: spillway.fit(self.net, self.step, policy=3, machine=machine)),  # type: ignore[arg-type]
            ("leave nvme and the budgets out", lambda: spillway.fit(self.net, self.step, machine=machine, nvme=self.folder)),
            ("leave nvme and the budgets out", lambda: spillway.fit(self.net, self.step, machine=machine, nvme_allow_tmpfs=True)),
            ("leave nvme and the budgets out", lambda: spillway.compare(self.net, self.step, machine=machine, host_budget=0)),
            ("nvme_rate: ", lambda: spillway.fit(self.net, self.step, nvme=self.folder, nvme_rate="fast")),
            ("device_budget: ", lambda: spillway.fit(self.net, self.step, machine=machine, device_budget="much")),
            ("expected a list", lambda: spillway.compare(self.net, self.step, policies="te", machine=machine)),
            ("budgets: ", lambda: spillway.compare(self.net, self.step, budgets=["much"], machine=machine)),
            ("leave machine out", lambda: spillway.compare(self.net, self.step, machine=machine, real=True)),
            ("nowhere.json", lambda: spillway.fit(self.net, self.step, machine="nowhere.json")),
            ("nvme", lambda: spillway.probe(nvme="/no/such/folder")),
        ]
        for says, call in cases:
            with self.subTest(says), self.assertRaisesRegex(spillway.Error, says) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
