# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import demo
from train_runs import MIB, Run

CAP = 700 * MIB
PEAK = 2200 * MIB
LOSSES = [5.5, 5.25, 4.1, 3.9, 3.7, 3.6]
REFUSAL = ("--device-budget 700MiB: step 1 forward: aten::addmm asked for 20.0 MiB with 695.0 MiB in use, "
           "20971520 bytes; --policy online would make it fit")


def run(name: str, ok: bool = True, **results: object) -> Run:
    return Run(name, ok, [], {"ok": ok, "losses": LOSSES, "step_seconds": [9.0, 1.0, 1.0, 1.0, 1.0, 1.0],
                              "process_peak_bytes": 1000 * MIB, "baseline_rss_bytes": 180 * MIB,
                              "bytes_written": 0, "bytes_read": 0, "options": {"parameters": 10 * MIB},
                              **results})


def spillway(**changes: object) -> Run:
    return run("spillway", **{"allocator_peak_bytes": CAP, "bytes_written": 1500 * MIB * 6,
                              "step_seconds": [9.0, 1.04, 1.04, 1.04, 1.04, 1.04], **changes})


def shown(**changes: object) -> demo.Demo:
    fields = {"cap_bytes": CAP, "steps": 6, "count": run("count", allocator_peak_bytes=PEAK),
              "plain": [run("plain"), run("plain")], "spillway": [spillway()],
              "capped": run("plain_capped", ok=False, error=REFUSAL, losses=[], step_seconds=[])}
    return demo.Demo(**{**fields, **changes})


class Broken(unittest.TestCase):
    def assert_broken(self, name: str, **changes: object) -> None:
        faults = demo.broken(shown(**changes))
        self.assertEqual(len(faults), 1, faults)
        self.assertIn(name, faults[0])

    def test_nothing_is(self) -> None:
        self.assertEqual(demo.broken(shown()), [])

    def test_one_loss_differs_in_the_last_digit(self) -> None:
        self.assert_broken("step 6", spillway=[spillway(losses=[*LOSSES[:-1], 3.6000001])])

    def test_a_step_is_missing(self) -> None:
        self.assert_broken("6 and 5 steps", spillway=[spillway(
            losses=LOSSES[:-1], bytes_written=1500 * MIB * 6)])

    def test_a_loss_is_not_a_number(self) -> None:
        odd = [*LOSSES[:-1], None]
        self.assertTrue(any("losses" in fault for fault in demo.broken(
            shown(plain=[run("plain", losses=odd)], spillway=[spillway(losses=odd)]))))

    def test_allocator_peak(self) -> None:
        self.assert_broken("allocator peak", spillway=[spillway(allocator_peak_bytes=CAP + 1)])

    def test_process_peak(self) -> None:
        allowed = 180 * MIB + CAP * 11 // 10 + 64 * MIB
        self.assertEqual(demo.broken(shown(spillway=[spillway(process_peak_bytes=allowed)])), [])
        self.assert_broken("process peak", spillway=[spillway(process_peak_bytes=allowed + 1)])

    def test_too_little_written(self) -> None:
        self.assert_broken("bytes written", spillway=[spillway(bytes_written=1200 * MIB * 6 - 1)])

    def test_too_slow(self) -> None:
        self.assert_broken("step ratio", spillway=[spillway(step_seconds=[1.0, 1.11, 1.11])])

    def test_no_time_is_judged_on_an_unsteady_machine(self) -> None:
        slow = spillway(step_seconds=[1.0, 1.9, 1.9])
        noisy = shown(plain=[run("plain"), run("plain", step_seconds=[9.0, 1.03, 1.03])], spillway=[slow])
        self.assertEqual(demo.broken(noisy), [])
        self.assertIn("two runs of plain differ by 3% (at most 2% is steady)", demo.unsteady(noisy))
        self.assertIn("are not judged", demo.unsteady(noisy))
        self.assertIn("(1.900)", demo.table(noisy, demo.as_json(noisy)))
        self.assertTrue(demo.broken(shown(plain=noisy.plain, spillway=[spillway(losses=LOSSES[1:])])))
        self.assert_broken("step ratio", spillway=[slow])

    def test_one_plain_run_says_nothing_of_the_machine(self) -> None:
        self.assertIn("plain ran once", demo.unsteady(shown(plain=[run("plain")])))
        self.assertEqual(demo.unsteady(shown()), "")

    def test_cap_above_a_third(self) -> None:
        self.assert_broken("a third", count=run("count", allocator_peak_bytes=3 * CAP - 1))

    def test_state_is_too_much_of_the_peak(self) -> None:
        self.assert_broken("optimizer state", plain=[run("plain", options={"parameters": PEAK // 16})])

    def test_too_few_steps(self) -> None:
        self.assert_broken("at least 5", steps=4)

    def test_a_run_failed(self) -> None:
        self.assert_broken("spillway failed: the disk", spillway=[
            run("spillway", ok=False, error="the disk")])

    def test_capped_run_trained(self) -> None:
        self.assert_broken("plain_capped", capped=run("plain_capped"))

    def test_refusal_has_to_advise_a_flag(self) -> None:
        self.assert_broken("which flag", capped=run(
            "plain_capped", ok=False, error=REFUSAL.replace("--policy", "policy")))


class Written(unittest.TestCase):
    def test_json_has_the_promised_keys(self) -> None:
        result = json.loads(json.dumps(demo.as_json(shown())))
        self.assertEqual(list(result), ["cap_bytes", "baseline_rss_bytes", "steady", "runs"])
        self.assertEqual([run["name"] for run in result["runs"]], ["plain", "plain_capped", "spillway"])
        for one in result["runs"]:
            self.assertEqual(list(one), ["name", "ok", "error", "losses", "allocator_peak_bytes",
                                         "process_peak_bytes", "bytes_written", "bytes_read", "step_seconds"])
        plain, capped, ours = result["runs"]
        self.assertEqual((plain["ok"], plain["error"], plain["allocator_peak_bytes"]), (True, None, PEAK))
        self.assertEqual((capped["ok"], capped["losses"], capped["step_seconds"]), (False, None, None))
        self.assertEqual((ours["losses"], ours["step_seconds"]), (LOSSES, 1.04))

    def test_steps_of_both_runs_count(self) -> None:
        pair = shown(plain=[run("plain", step_seconds=[9, 1, 1]), run("plain", step_seconds=[9, 3, 3])])
        self.assertEqual(demo.as_json(pair)["runs"][0]["step_seconds"], 2)

    def test_table_is_whole_when_nothing_is_known(self) -> None:
        nothing = Run("x", False, ["no disk"], {})
        empty = shown(count=nothing, plain=[nothing], spillway=[nothing], capped=nothing)
        text = demo.table(empty, demo.as_json(empty))
        self.assertEqual(len(text.splitlines()), 4)
        self.assertTrue(demo.broken(empty))


def heeds_interrupts() -> None:
    """What a shell starts in the background ignores them, and so does what that starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Ends(unittest.TestCase):
    """The whole program, on stand-ins for `spillway` and `plain_train`."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.build = self.folder / "build"
        for program in ("bin/spillway", "bench/plain_train"):
            self.program(program, "echo one step")

    def program(self, name: str, text: str) -> None:
        """The shell of `text` runs with the file of --json in $file; afterwards that tells of a run that went well."""
        file = self.build / name
        file.parent.mkdir(parents=True, exist_ok=True)
        result = json.dumps({"ok": True, "losses": LOSSES, "allocator_peak_bytes": PEAK})
        file.write_text(f"#!/bin/sh\nfor file; do :; done\n{text}\necho '{result}' >$file\n")
        file.chmod(0o755)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(pathlib.Path(demo.__file__)), "--build", str(self.build), *words]

    def run_demo(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(*words), cwd=self.folder, capture_output=True, text=True, check=False)

    def assert_one_line(self, said: str, *words: str) -> None:
        before = sorted(self.folder.rglob("*"))
        done = self.run_demo(*words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(said, done.stderr)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_what_is_not_built_is_named_and_no_folder_is_made(self) -> None:
        self.assert_one_line("bin/spillway is not built; `make build` builds it", "--build", "nowhere")

    def test_bad_arguments_are_told_before_anything_runs(self) -> None:
        self.assert_one_line("--cap: 'much' is not a size", "--cap", "much")
        self.assert_one_line("--steps 3: at least 5", "--steps", "3")
        self.assert_one_line("no/demo.json cannot be written", "--json", "no/demo.json")
        self.assert_one_line("Not a directory", "--folder", "build/bin/spillway/x")

    def test_each_run_is_announced_with_how_many_there_are(self) -> None:
        said = self.run_demo().stderr
        self.assertEqual(re.findall(r"(?m)^run (\d) of 6, (\w+): ", said),
                         [("1", "count"), ("2", "plain"), ("3", "plain_capped"), ("4", "spillway"), ("5", "spillway"),
                          ("6", "plain")])
        self.assertIn("plain: one step", said)

    def test_a_first_run_that_fails_is_the_last_one(self) -> None:
        self.program("bin/spillway", "echo no such flag; exit 2")
        done = self.run_demo()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr.splitlines()[-1], "demo: count failed: no such flag")
        self.assertEqual(len(re.findall(r"(?m)^run ", done.stderr)), 1)

    def test_a_run_that_was_killed_says_so(self) -> None:
        self.program("bin/spillway", "echo '{' >$file; kill -KILL $$")
        self.assertIn("count failed: ended by signal 9 (Killed)", self.run_demo().stderr)

    def test_too_little_room_on_the_disk_is_told_before_the_long_runs(self) -> None:
        with mock.patch.object(demo.shutil, "disk_usage", return_value=mock.Mock(free=PEAK - 1)):
            self.assertIn("2,200 MiB are needed; name another disk: --folder", demo.lacking_room(self.folder, PEAK))
            self.assertEqual(demo.lacking_room(self.folder, PEAK - 1), "")

    def test_an_interrupt_is_one_line_and_leaves_nothing(self) -> None:
        self.program("bin/spillway", "echo begun; exec sleep 60")
        with subprocess.Popen(self.command(), cwd=self.folder, stderr=subprocess.PIPE, text=True,
                              preexec_fn=heeds_interrupts) as child:
            for line in child.stderr:
                if line == "count: begun\n":
                    child.send_signal(signal.SIGINT)
                    break
            said = child.stderr.read()
        self.assertEqual((child.returncode, said.strip()), (130, "demo: interrupted; its folder is removed"))
        self.assertEqual(list(self.build.glob("runs-*")), [])


if __name__ == "__main__":
    unittest.main()
