# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`spillway plan`, `simulate`, `compare`, `fit` and `probe`, on a step that `spillway train` recorded."""

import json
import pathlib
import subprocess

from harness import PROGRAM, ROOT, SMALL, TINY, InFolder

GOLDEN = ROOT / "tests" / "golden"


class Planning(InFolder):
    def recorded(self) -> tuple[str, str]:
        done = self.train(*SMALL, "--layers", "4", "--steps", "3", "--device-budget", "1GiB", "--trace", self.path("step.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path("step.json"), str(GOLDEN / "machine.json")

    def test_a_recorded_step_is_planned_foretold_compared_and_fitted(self):
        files = self.recorded()
        plan = self.run_program("plan", *files, "--policy", "te:layers=2")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertRegex(plan.stderr, r"\Ate:layers=2: step \d+\.\d{3} s .* of compute\), peak .* with nothing moved\n\Z")
        self.assertEqual(json.loads(plan.stdout)["policy"], "te:layers=2")
        bounded = self.run_program("plan", *files, "--policy", "auto")
        self.assertRegex(bounded.stderr, r" with nothing moved, no plan takes less than \d+\.\d{3} s \(gap \d+\.\d %\)\n")
        pathlib.Path(self.path("plan.json")).write_text(plan.stdout)
        found = self.run_program("simulate", *files, self.path("plan.json"), "--timeline", self.path("timeline.json"))
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertRegex(found.stdout, r"(?m)^peak, device +[\d.]+ MiB  of [\d.]+ MiB with nothing moved")
        self.assertGreater(len(json.loads(pathlib.Path(self.path("timeline.json")).read_text())["traceEvents"]), 10)
        table = self.run_program("compare", *files, "--json", self.path("all.json"))
        self.assertEqual(table.returncode, 0, table.stderr)
        for policy in ("online", "te", "tba", "vdnn_all", "optimal_offload"):
            self.assertRegex(table.stdout, rf"(?m)^{policy} +\d\.\d{{3}}, [\d.]+ MiB")
        rows = json.loads(pathlib.Path(self.path("all.json")).read_text())["rows"]
        self.assertEqual(len({row["device_bytes"] for row in rows}), 3)
        fitted = self.run_program("fit", *files)
        self.assertEqual(fitted.returncode, 0, fitted.stderr)
        self.assertIn("the smallest budget is", fitted.stdout)

    def test_a_machine_is_a_data_sheet_unless_there_is_such_a_file(self):
        trace = str(GOLDEN / "trace.json")
        named = self.run_program("fit", trace, "titan-x")
        self.assertEqual(named.returncode, 0, named.stderr)
        self.assertIn(" on Titan X", named.stdout)
        mine = json.loads((GOLDEN / "machine.json").read_text())
        pathlib.Path(self.path("titan-x")).write_text(json.dumps({**mine, "name": "mine"}))
        self.assertIn(" on mine", self.run_program("fit", trace, self.path("titan-x")).stdout)

    def test_each_system_that_makes_again_trains(self):
        model = ["--layers", "4", "--width", "64", "--heads", "2", "--sequence", "64", "--batch", "8", "--steps", "5"]
        plain = self.trained(*model)
        for policy in ("superneurons", "capuchin", "str", "delta", "rotor", "pofo", "tba_recompute"):
            with self.subTest(policy):
                ours = self.trained(*model, "--device-budget", "6MiB", "--nvme", self.path("."), "--nvme-allow-tmpfs", "--policy", policy)
                report, plan = ours["report"], ours["report"]["plan"]
                self.assertEqual(ours["losses"], plain["losses"])
                looks_at_rates = policy not in ("superneurons", "rotor")  # a quick drive may hide all
                moved_bytes = report["loaded_bytes"] if looks_at_rates else 0
                self.assertGreater(report["recomputed_bytes"] + moved_bytes, 0)
                self.assertLessEqual(report["device_peak_bytes"], 6 << 20)
                if policy != "delta":  # it chooses at run time
                    self.assertEqual((plan["policy"].partition(" ")[0], plan["refusal"], plan["steps"]), (policy, "", 2))

    def test_a_plan_in_a_file_is_trained_by(self):
        plan = self.run_program("plan", *self.recorded(), "--policy", "te:layers=2", "--host-budget", "0")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        pathlib.Path(self.path("plan.json")).write_text(plan.stdout)
        model = [*SMALL, "--layers", "4", "--steps", "3"]
        plain = self.trained(*model)
        ours = self.trained(*model, "--device-budget", "1GiB", "--nvme", self.path("."), "--nvme-allow-tmpfs",
                            "--plan", self.path("plan.json"))
        self.assertEqual(ours["losses"], plain["losses"])
        ran, foretold = ours["report"]["plan"], json.loads(plan.stdout)
        self.assertEqual((ran["policy"], ran["refusal"], ran["steps"]), ("te:layers=2", "", 2))
        self.assertEqual(ran["foretold_peak_bytes"], foretold["predicted_peak_bytes"])
        self.assertGreater(ours["report"]["loaded_bytes"], 0)
        fates = [{**fate, "pool": "host"} if fate["fate"] == "move" else fate for fate in foretold["fates"]]
        pathlib.Path(self.path("host.json")).write_text(json.dumps({**foretold, "fates": fates}))
        pathlib.Path(self.path("cut.json")).write_text(plan.stdout[:100])
        pathlib.Path(self.path("later.json")).write_text(json.dumps({**foretold, "spillway_plan": 9}))
        there = ["train", *TINY, "--steps", "1", "--device-budget", "1GiB", "--nvme", self.path("."), "--nvme-allow-tmpfs", "--plan"]
        for words, naming in ([*there, self.path("none.json")], ["--plan", "none.json", "No such file or directory"]), \
                             ([*there, self.path("cut.json")], ["--plan", "cut.json"]), \
                             ([*there, self.path("later.json")], ["--plan", "later.json", "is of format version 9"]), \
                             ([*there, self.path("plan.json"), "--policy", "te"], ["--plan", "stands in place of --policy, which is 'te'"]), \
                             ([*there, self.path("host.json")], ["host.json", "--host-budget"]), \
                             (["train", *TINY, "--plan", self.path("plan.json")], ["--plan", "needs --device-budget"]):
            with self.subTest(words):
                self.assert_refused(words, naming)

    def test_a_recorded_step_cannot_be_run_and_the_refusal_says_what_can(self):
        said = self.assert_refused(["compare", str(GOLDEN / "trace.json"), "h100", "--real"], ["spillway.compare(model, step, real=True)"])
        self.assertEqual(len(said.splitlines()), 1)

    def test_this_machine_is_measured_and_planned_for(self):
        done = self.run_program("probe", "--nvme", self.path("."), "--nvme-budget", "64MiB", "--nvme-allow-tmpfs",
                                "--host-budget", "256MiB")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        machine = json.loads(done.stdout)
        self.assertEqual({tier["pool"]: tier["capacity_bytes"] for tier in machine["tiers"] if tier["pool"] != "device"},
                         {"host": 256 << 20, "nvme": 64 << 20})
        self.assertEqual({(link["from"], link["to"]) for link in machine["links"]},
                         {("device", "host"), ("host", "device"), ("device", "nvme"), ("nvme", "device")})
        self.assertGreater(machine["device"]["memory_bytes_per_s"], 0)
        self.assertGreater(min(machine["device"]["codec_bytes_per_s"].values()), 0)
        pathlib.Path(self.path("machine.json")).write_text(done.stdout)
        fitted = self.run_program("fit", str(GOLDEN / "trace.json"), self.path("machine.json"))
        self.assertEqual(fitted.returncode, 0, fitted.stderr)
        self.assertIn(" on here", fitted.stdout)

    def test_what_cannot_be_measured_is_one_line_and_exit_code_2(self):
        for words, says in [([], "a place to measure is missing: give --nvme, --host-budget or both"),
                            (["--nvme", self.path("none")], "--nvme: "),
                            (["--host-budget", "much"], "--host-budget: "),
                            (["--host-budget", "0"], "a place to measure is missing"),
                            (["--host-budget", "64MiB", "--nvme-budget", "1GiB"], "--nvme-budget: it needs --nvme"),
                            (["--host-budget", "64MiB", "--nvme-budget", "50%"], "--nvme-budget: it needs --nvme"),
                            (["--nvme", self.path("."), "--nvme-allow-tmpfs", "--nvme-budget", "1EiB"], "--nvme-budget: "),
                            (["--nvme", self.path("."), "--nvme-allow-tmpfs", "--nvme-budget", "256KiB"], "256.0 KiB")]:
            with self.subTest(words):
                self.assertIn(says, self.assert_refused(["probe", *words], ["spillway: probe: "]))

    def test_a_model_that_nobody_ran_is_planned(self):
        made = self.run_program("trace", "--model", "resnet50", "--machine", "titan-x", "--batch", "8")
        self.assertEqual(made.returncode, 0, made.stderr)
        pathlib.Path(self.path("made.json")).write_text(made.stdout)
        self.assertIn("ConvolutionBackward0", self.run_program("trace", self.path("made.json")).stdout)
        plan = self.run_program("plan", self.path("made.json"), "titan-x", "--policy", "vdnn_all")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        for words, says in [(["--model", "gpt5", "--machine", "h100"], "no model 'gpt5'; there are gpt2-345m"),
                            (["--model", "vgg16", "--machine", "z9"], "no data sheet 'z9'"),
                            (["--model", "vgg16"], "--model needs --machine"),
                            (["--model", "vgg16", "--machine", "h100", "--batch", "0"], "--batch: expected at least 1"),
                            (["--model", "vgg16", "--machine", "h100", "--dropout", "nan"], "--dropout: not a share"),
                            (["--batch", "8", self.path("made.json")], "need --model"),
                            ([self.path("made.json"), "--model", "vgg16"], "exclude each other"),
                            (["--model", "vgg16", "--machine", "h100", "--batch", "-4"], "batch -4 is not from 1 to 4096"),
                            ([], "FILE is missing, or --model")]:
            with self.subTest(words):
                done = self.run_program("trace", *words)
                self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done.stderr)
                self.assertIn(says, done.stderr)

    def test_a_plan_for_more_memory_than_the_machine_has_is_refused(self):
        trace = self.path("step.json")
        pathlib.Path(trace).write_text(self.run_program(
            "trace", "--model", "gpt2-345m", "--batch", "1", "--layers", "2", "--machine", "h100").stdout)
        pathlib.Path(self.path("plan.json")).write_text(self.run_program("plan", trace, "h100", "--policy", "offload_all").stdout)
        refused = self.run_program("simulate", trace, "titan_x", self.path("plan.json"))
        self.assertEqual((refused.returncode, len(refused.stderr.splitlines())), (2, 1), refused.stderr)
        self.assertIn("for a device budget of 80.0 GiB, and the machine's device has 12.0 GiB", refused.stderr)
        asked = self.run_program("simulate", trace, "titan_x", self.path("plan.json"), "--device-budget", "12GiB")
        self.assertEqual(asked.returncode, 0, asked.stderr)

    def test_a_full_disk_behind_standard_output_is_said(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "trace", str(GOLDEN / "trace.json")], stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False)
        self.assertEqual((done.returncode, done.stderr), (2, "spillway: standard output cannot be written, is the disk full?\n"))

    def test_bad_input_is_one_line_and_exit_code_2(self):
        trace, machine = str(GOLDEN / "trace.json"), str(GOLDEN / "machine.json")
        pathlib.Path(self.path("cut.json")).write_text(pathlib.Path(trace).read_text()[:100])
        cases = [(["plan", self.path("none"), machine, "--policy", "te"], "none"),
                 (["plan", self.path("cut.json"), machine, "--policy", "te"], "cut.json: trace: is not JSON at line "),
                 (["plan", machine, machine, "--policy", "te"], "is a spillway_machine, and no spillway_trace"),
                 (["plan", trace, machine, "--policy", "best"], "no policy 'best'; there are"),
                 (["plan", trace, machine, "--policy", "te:x=1"], "no parameter 'x'"),
                 (["plan", trace, machine, "--policy", "te"], "three repeated layers"),
                 (["plan", trace, machine, "--policy", "tba", "--device-budget", "-1"], "--device-budget"),
                 (["plan", trace, machine, "--policy", "tba", "--device-budget", "1KiB"], "policy tba"),
                 (["plan", trace, machine, "--policy", "tba", "--device-budget", "1KiB"], "; the smallest --device-budget"),
                 (["simulate", trace, machine, machine], "spillway_plan"),
                 (["compare", trace, machine, "--policies", "best"], "no policy 'best'"),
                 (["compare", trace, machine, "--budgets", "much"], "--budgets much"),
                 (["fit", trace, "z9"], "no data sheet 'z9'; there are a100_40"),
                 (["fit", trace, machine, "--policy", "te"], "policy te")]
        for words, says in cases:
            with self.subTest(words):
                done = self.run_program(*words)
                self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done.stderr)
                self.assertIn(says, done.stderr)
