# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`spillway plan`, `simulate`, `compare` and `fit`, on a step that `spillway train` recorded."""

import json
import pathlib

from harness import ROOT, SMALL, InFolder

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
                            (["--batch", "8", self.path("made.json")], "need --model"),
                            ([self.path("made.json"), "--model", "vgg16"], "exclude each other"),
                            (["--model", "vgg16", "--machine", "h100", "--batch", "-4"], "batch -4 is not from 1 to 4096"),
                            ([], "FILE is missing, or --model")]:
            with self.subTest(words):
                done = self.run_program("trace", *words)
                self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done.stderr)
                self.assertIn(says, done.stderr)

    def test_bad_input_is_one_line_and_exit_code_2(self):
        trace, machine = str(GOLDEN / "trace.json"), str(GOLDEN / "machine.json")
        pathlib.Path(self.path("cut.json")).write_text(pathlib.Path(trace).read_text()[:100])
        cases = [(["plan", self.path("none"), machine, "--policy", "te"], "none"),
                 (["plan", self.path("cut.json"), machine, "--policy", "te"], "cut.json"),
                 (["plan", machine, machine, "--policy", "te"], "spillway_trace"),
                 (["plan", trace, machine, "--policy", "best"], "no policy 'best'; there are"),
                 (["plan", trace, machine, "--policy", "te:x=1"], "no parameter 'x'"),
                 (["plan", trace, machine, "--policy", "te"], "three repeated layers"),
                 (["plan", trace, machine, "--policy", "tba", "--device-budget", "-1"], "--device-budget"),
                 (["plan", trace, machine, "--policy", "tba", "--device-budget", "1KiB"], "policy tba"),
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
