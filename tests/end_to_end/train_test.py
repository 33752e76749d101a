# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`spillway train` as a user runs it: results, budgets, checkpoints, Ctrl-C, kill -9."""

import itertools
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import time
import unittest

from harness import ELSEWHERE, LIMIT_S, PLAIN, PROGRAM, SANITIZED, SMALL, TINY, InFolder, long


class Help(InFolder):
    def test_version_and_help_say_what_there_is(self):
        self.assertRegex(self.run_program("--version").stdout, r"^spillway \d+\.\d+\.\d+\n$")
        self.assertIn("train", self.run_program("--help").stdout)

    def test_every_flag_shows_its_default(self):
        shown = self.run_program("train", "--help").stdout
        flags = re.findall(r"^  (--[a-z0-9-]+)[^\n]*\n?", shown, re.M)
        self.assertGreaterEqual(len(flags), 34)
        for line in re.findall(r"^  --[^\n]+(?:\n {20,}[^\n]+)*", shown, re.M):
            self.assertRegex(line, r"\[[^\]]+\]$", line)


class States(InFolder):
    def test_adams_state_leaves_between_steps_and_a_checkpoint_has_it(self):
        model = ["--layers", "2", "--width", "128", "--heads", "2", "--sequence", "32", "--batch", "2", "--steps", "4"]
        place = ["--nvme", self.path("."), "--nvme-allow-tmpfs", "--states", "optimizer"]
        plain = self.trained(*model)
        roomy = self.trained(*model, "--device-budget", "1GiB", *place)
        self.assertEqual(roomy["losses"], plain["losses"])
        budget = ["--device-budget", str(roomy["report"]["device_needed_bytes"] * 51 // 50)]
        self.assert_refused(["train", *model, *budget], ["--device-budget", "optimizer state alone take"])
        tight = self.trained(*model, *budget, *place, "--checkpoint", "saved", "--checkpoint-every", "3")
        self.assertEqual(tight["losses"], plain["losses"])
        self.assertGreater(tight["report"]["loaded_bytes"], 1 << 20)
        self.trained(*model[:-1], "3", *budget, *place, "--checkpoint", "three")
        resumed = self.trained(*model, *budget, *place, "--resume", "three", "--checkpoint", "four")
        self.assertEqual(resumed["losses"], plain["losses"][3:])
        for name in ("model.safetensors", "optimizer.safetensors"):
            with self.subTest(name):
                self.assertEqual((self.folder / "four" / name).read_bytes(), (self.folder / "saved" / name).read_bytes())


@unittest.skipIf(SANITIZED, ELSEWHERE)
class Results(InFolder):
    def test_hold_what_is_known_of_a_plain_run(self):
        found = self.trained(*TINY, "--steps", "3")
        self.assertTrue(found["ok"])
        self.assertIsNone(found["error"])
        self.assertEqual((found["steps"], len(found["losses"]), len(found["step_seconds"])), (3, 3, 3))
        for forward, whole in zip(found["forward_seconds"], found["step_seconds"], strict=True):
            self.assertTrue(0 < forward < whole)
        self.assertIsNone(found["allocator_peak_bytes"])
        self.assertIsNone(found["report"])
        self.assertGreater(found["tokens_per_second"], 0)
        self.assertGreaterEqual(found["process_peak_bytes"], found["baseline_rss_bytes"])
        self.assertEqual(found["options"]["width"], 32)

    @long
    def test_both_styles_and_both_precisions_train(self):
        for more in (["--style", "llama2", "--kv-heads", "1"], ["--precision", "bf16"],
                     ["--dropout", "0.1", "--accumulate", "2"]):
            found = self.trained(*TINY, "--steps", "2", *more)
            self.assertEqual(len([x for x in found["losses"] if x > 0]), 2)

    @unittest.skipUnless(PLAIN.exists(), "this build has no benchmarks, plain_train among them")
    @long
    def test_a_run_without_spillway_has_the_same_losses(self):
        words = [*TINY, "--steps", "3", "--seed", "5"]
        plain = self.trained(*words, program=PLAIN)
        self.assertEqual(plain["losses"], self.trained(*words)["losses"])
        counted = self.trained(*words, "--count-allocations")
        self.assertEqual(plain["losses"], counted["losses"])
        self.assertGreater(counted["allocator_peak_bytes"], 100_000)

    @long
    def test_validation_is_on_text_that_is_not_trained_on(self):
        words = [*TINY, "--steps", "5", "--dropout", "0.5"]
        found = self.trained(*words, "--validate-every", "2")
        self.assertEqual([at["step"] for at in found["validation"]], [2, 4, 5])
        self.assertTrue(all(3 < at["loss"] < 7 for at in found["validation"]), found["validation"])
        again = self.trained(*words, "--validate-every", "5")
        self.assertEqual(again["validation"], found["validation"][2:])
        self.assertEqual(again["losses"], found["losses"])
        self.assertNotEqual(self.trained(*words)["losses"], found["losses"])

    def test_text_of_ones_own(self):
        pathlib.Path(self.path("text")).write_text("to be or not to be " * 10)
        found = self.trained(*TINY, "--steps", "1", "--data", "text")
        self.assertEqual(found["options"]["data-bytes"], 190)


class Budget(InFolder):
    CAP = "40MiB"

    def test_losses_are_those_of_plain_training_and_the_cap_is_kept(self):
        words = [*SMALL, "--steps", "3"]
        plain = self.trained(*words)
        for more in ([], ["--precision", "bf16"]):
            capped = self.trained(*words, *more, "--device-budget", self.CAP, "--nvme", self.path(""))
            if more:
                plain = self.trained(*words, *more)
            self.assertEqual(capped["losses"], plain["losses"])
            self.assertLessEqual(capped["allocator_peak_bytes"], 40 << 20)
            self.assertGreater(capped["report"]["stored_bytes"], 0)
            modules = [row["module"] for row in capped["report"]["device_peak_saved_by_module"]]
            self.assertTrue(any(module.startswith("h.") for module in modules), modules)

    @long
    def test_keep_all_fails_with_results_that_say_what_was_asked(self):
        before = self.contents()
        done = self.train(*SMALL, "--steps", "2", "--device-budget", self.CAP, "--policy", "keep_all",
                          "--json", "out.json")
        self.assertEqual(done.returncode, 2, done.stderr)
        said = done.stderr.strip().splitlines()
        self.assertEqual(len(said), 1)
        self.assertIn(f"--device-budget {self.CAP}: step 1, forward: aten::", said[0])
        found = json.loads(pathlib.Path(self.path("out.json")).read_text())
        self.assertFalse(found["ok"])
        self.assertIn(found["error"], said[0])
        self.assertLessEqual(found["allocator_peak_bytes"], 40 << 20)
        self.assertEqual(set(self.contents()) - set(before), {"out.json"})


    def capped(self, *more: str) -> list[str]:
        (self.folder / "nvme").mkdir(exist_ok=True)
        return [*SMALL, "--device-budget", self.CAP, "--nvme", "nvme", *more]

    def test_the_same_run_gives_the_same_commands(self):
        logs = []
        for name in ("one", "two"):
            # What is made again depends on measured times, which differ.
            self.trained(*self.capped("--steps", "2", "--record-events", name, "--recompute", "off"))
            lines = pathlib.Path(self.path(name)).read_text().splitlines()
            # In backward values end while the disk still stores them: when their room is free hangs on the disk.
            forward = itertools.takewhile(lambda line: '"phase":"backward"' not in line, lines)
            logs.append([json.loads(line) for line in forward if line.startswith('{"c"')])
        self.assertGreater(len(logs[0]), 30)
        self.assertEqual(*logs)

    @long
    def test_a_run_under_the_cap_is_resumed_to_the_last_bit(self):
        words = self.capped("--steps", "5", "--accumulate", "2")
        whole = self.trained(*words)["losses"]
        process = self.start(*words, "--checkpoint", "ckpt", "--json", "out.json")
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=LIMIT_S)[1]
        self.assertEqual(process.returncode, 130, said)
        begun = json.loads(pathlib.Path(self.path("out.json")).read_text())["losses"]
        rest = self.trained(*words, "--resume", "ckpt")["losses"]
        self.assertEqual(begun + rest, whole)
        self.assertEqual(list((self.folder / "nvme").iterdir()), [])

    @long
    def test_kill_9_leaves_no_file(self):
        process = self.start(*self.capped("--steps", "100000"))
        process.stderr.readline()
        held = [os.readlink(f) for f in pathlib.Path(f"/proc/{process.pid}/fd").iterdir()]
        self.assertTrue([name for name in held if str(self.folder.resolve() / "nvme") in name], held)
        process.kill()
        process.wait()
        self.assertEqual(list((self.folder / "nvme").iterdir()), [])


@unittest.skipIf(SANITIZED, ELSEWHERE)
class Told(InFolder):
    """The table, and the timeline for viewers."""

    def events_in(self, name: str) -> list[dict]:
        events = json.loads(pathlib.Path(self.path(name)).read_text())["traceEvents"]
        lasting = [event for event in events if event["ph"] == "X"]
        ends: dict[int, float] = {}
        for event in sorted(lasting, key=lambda e: (e["ts"], e["ts"] + e["dur"])):
            self.assertGreaterEqual(event["ts"] + 1e-3, ends.get(event["tid"], 0), event)
            ends[event["tid"]] = event["ts"] + event["dur"]
        return events

    def sum_of(self, events: list[dict], row: str, field: str) -> int:
        rows = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
        return sum(e["args"].get(field, 0) for e in events if e["ph"] == "X" and e["tid"] == rows[row])

    @long
    def test_the_timeline_has_every_byte_of_the_report(self):
        found = self.trained(*SMALL, "--steps", "3", "--device-budget", "40MiB", "--nvme", ".",
                             "--host-budget", "8MiB", "--timeline", "timeline.json")
        report, events = found["report"], self.events_in("timeline.json")
        loaded = report["nvme_moved_bytes"] - report["nvme_stored_bytes"]
        self.assertGreater(loaded, 0)
        self.assertEqual(self.sum_of(events, "nvme_write", "size_bytes"), report["nvme_stored_bytes"])
        self.assertEqual(self.sum_of(events, "nvme_read", "size_bytes"), loaded)
        self.assertEqual(self.sum_of(events, "copy_out", "size_bytes"),
                         report["stored_bytes"] - report["nvme_stored_bytes"])
        self.assertEqual(self.sum_of(events, "copy_in", "size_bytes"), report["loaded_bytes"] - loaded)
        names = {event["name"] for event in events}
        self.assertGreaterEqual(names, {"step 1, forward", "step 3, backward", "device bytes"})
        most = max(e["args"]["used_bytes"] for e in events if e["name"] == "device bytes")
        self.assertLessEqual(most, report["device_peak_bytes"])
        self.assertTrue([e for e in events if "saved tensor" in e.get("args", {}).get("text", "")])

    def test_a_trace_is_of_the_last_step_and_is_shown(self):
        found = self.trained(*SMALL, "--steps", "3", "--device-budget", "1GiB", "--recompute", "on", "--trace", "trace.json")
        trace = json.loads(pathlib.Path(self.path("trace.json")).read_text())
        self.assertEqual(trace["name"], "step 3")
        self.assertGreater(sum("recipe" in value for value in trace["values"]), 0)
        shown = self.run_program("trace", self.path("trace.json"))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertRegex(shown.stdout, r"^step 3: \d+ points, \d+\.\d{3} s of compute, peak [\d.]+ MiB\n")
        peak = float(re.search(r"peak ([\d.]+) MiB", shown.stdout)[1])
        self.assertAlmostEqual(peak, found["report"]["device_peak_bytes"] / 2**20, delta=0.06 * peak)
        self.assertRegex(shown.stdout, r"(?m)^ViewBackward0 +\d+")

    @long
    def test_a_run_that_fails_leaves_its_timeline(self):
        done = self.train(*SMALL, "--steps", "2", "--device-budget", "24MiB", "--recompute", "off", "--timeline", "timeline.json")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("step 1, forward", {event["name"] for event in self.events_in("timeline.json")})

    @long
    def test_a_timeline_that_the_disk_has_no_room_for_is_told_and_the_run_goes_on(self):
        done = self.train(*SMALL, "--steps", "1", "--device-budget", "40MiB", "--nvme", ".",
                          "--timeline", "/dev/full")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("/dev/full: cannot write the timeline", done.stderr)

    def test_the_table_follows_the_summary_where_there_is_a_budget(self):
        words = [*SMALL, "--steps", "1"]
        self.assertEqual(len(self.train(*words).stdout.splitlines()), 1)
        table = self.train(*words, "--device-budget", "40MiB", "--nvme", ".").stdout
        self.assertRegex(table, r"^1 steps, loss .*\ndevice +allocated at most +\d+\.\d MiB  of 40\.0 MiB\n")
        self.assertRegex(table, r"stored on NVMe +\d+\.\d MiB  \d+\.\d\d GB/s\n")
        self.assertNotIn("host", table)


class Replay(InFolder):
    def test_a_failed_run_leaves_its_last_steps_and_they_replay(self):
        done = self.train(*SMALL, "--steps", "2", "--device-budget", "24MiB", "--recompute", "off", "--flight-record", "failed.events")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "the last steps are in /.*/failed.events; ")
        again = self.run_program("replay", "failed.events")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("identical: ", again.stdout)
        self.assertIn("refused: asked for ", again.stdout)

    @long
    def test_a_run_that_ends_well_leaves_no_record(self):
        self.trained(*TINY, "--steps", "1", "--device-budget", "1GiB", "--flight-record", "failed.events")
        self.assertFalse(pathlib.Path(self.path("failed.events")).exists())

    @long
    def test_an_altered_record_is_found_and_a_bad_one_refused(self):
        self.trained(*SMALL, "--steps", "1", "--device-budget", "40MiB", "--nvme", ".", "--record-events", "log")
        whole = pathlib.Path(self.path("log")).read_text()
        altered = whole.replace('"c":"store"', '"c":"load"', 1)
        pathlib.Path(self.path("altered")).write_text(altered)
        done = self.run_program("replay", "altered")
        self.assertEqual((done.returncode, "different: event " in done.stdout), (1, True), done.stdout)
        pathlib.Path(self.path("none")).write_text("no record")
        for name, why in (("absent", "No such file"), ("none", "no header line"), (".", "")):
            self.assert_refused(["replay", name], [f"spillway: replay: {name}: ", why])


def takes_no_file_above_24_mib() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (24 << 20, 24 << 20))


class FullDisk(InFolder):
    """A file system that lets a file grow to 24 MiB, whatever it says is free."""

    def train_on_small_disk(self, *words: str):
        return subprocess.run(
            [PROGRAM, "train", *SMALL, "--nvme", ".", "--nvme-budget", "1GiB", *words], cwd=self.folder,
            capture_output=True, text=True, timeout=LIMIT_S, check=False, preexec_fn=takes_no_file_above_24_mib)

    @long
    def test_what_fits_elsewhere_trains_on_with_the_same_losses(self):
        expected = self.trained(*SMALL, "--steps", "2")["losses"]
        done = self.train_on_small_disk("--steps", "2", "--device-budget", "40MiB", "--host-budget", "64MiB",
                                        "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(pathlib.Path(self.path("out.json")).read_text())["losses"], expected)

    def test_what_fits_nowhere_stops_with_one_line_that_says_so(self):
        done = self.train_on_small_disk("--steps", "2", "--device-budget", "24MiB")
        self.assertEqual(done.returncode, 2, done.stderr)
        said = done.stderr.strip().splitlines()
        self.assertIn("the nvme tier takes no more", said[0])
        self.assertIn("File too large", said[0])
        self.assertRegex(said[-1], r"--device-budget 24MiB: step 1, \w+: .*bytes.*NVMe takes no more "
                                   r"\(.*File too large\).*, --nvme in another place")


class Checkpoint(InFolder):
    def test_is_one_folder_that_a_longer_run_goes_on_from(self):
        words = [*TINY, "--steps", "6", "--dropout", "0.1"]
        self.trained(*words, "--checkpoint", "ckpt", "--checkpoint-every", "2")
        self.assertEqual(set(self.contents()), {"results.json", "ckpt", "ckpt/model.safetensors",
                                                "ckpt/optimizer.safetensors", "ckpt/state.json"})
        longer = self.trained(*TINY, "--steps", "8", "--dropout", "0.1", "--resume", "ckpt")
        self.assertEqual((longer["first_step"], longer["steps"]), (6, 2))

    @long
    def test_what_is_damaged_cut_short_or_of_another_model_is_refused(self):
        self.trained(*TINY, "--steps", "1", "--checkpoint", "ckpt")
        self.assert_refused(["train", *TINY, "--resume", "ckpt", "--hidden", "64", "--checkpoint", "ckpt"],
                            ["--resume ckpt: ", "another model", "hidden 128, asked for 64"])
        for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
            file = pathlib.Path(self.path("ckpt")) / name
            whole = file.read_bytes()
            for broken in (whole[:-2], whole[:3], b"", whole[:50] + b"\xff" + whole[51:]):
                file.write_bytes(broken)
                self.assert_refused(["train", *TINY, "--resume", "ckpt", "--checkpoint", "ckpt"],
                                    ["--resume ckpt: not a whole checkpoint: ", name])
            file.unlink()
            self.assert_refused(["train", *TINY, "--resume", "ckpt"], ["--resume ckpt: ", name])
            file.write_bytes(whole)

    def test_a_finished_run_has_nothing_left_to_do(self):
        self.trained(*TINY, "--steps", "1", "--checkpoint", "ckpt")
        found = self.trained(*TINY, "--steps", "1", "--resume", "ckpt")
        self.assertEqual((found["ok"], found["steps"], found["first_step"]), (True, 0, 1))


@unittest.skipIf(SANITIZED, ELSEWHERE)
class Interrupted(InFolder):
    LONG = [*TINY, "--steps", "1000000"]

    def test_both_signals_end_with_a_checkpoint_and_results(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(*self.LONG, "--checkpoint", "ckpt", "--json", "out.json")
            process.stderr.readline()
            process.send_signal(number)
            said = process.communicate(timeout=LIMIT_S)[1]
            self.assertEqual(process.returncode, 130, said)
            self.assertIn("checkpoint in ckpt", said)
            found = json.loads(pathlib.Path(self.path("out.json")).read_text())
            self.assertIn("interrupted after step", found["error"])
            state = json.loads(pathlib.Path(self.path("ckpt/state.json")).read_text())["state"]
            self.assertEqual(state["steps_done"], found["steps"])

    @long
    def test_the_run_that_was_interrupted_goes_on_to_the_last_bit(self):
        words = [*SMALL, "--steps", "6", "--accumulate", "2"]
        whole = self.trained(*words)["losses"]
        process = self.start(*words, "--checkpoint", "ckpt", "--json", "out.json")
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 130)
        begun = json.loads(pathlib.Path(self.path("out.json")).read_text())["losses"]
        rest = self.trained(*words, "--resume", "ckpt")["losses"]
        self.assertLess(len(begun), 6)
        self.assertEqual(begun + rest, whole)

    @long
    def test_a_second_ctrl_c_ends_at_once(self):
        process = self.start("--layers", "8", "--batch", "8", "--steps", "3", "--checkpoint", "ckpt")
        self.wait_for_resident(process, 600 << 20)  # in the middle of the first forward
        process.send_signal(signal.SIGINT)
        process.stderr.readline()
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT_S), 130)
        self.assertFalse(pathlib.Path(self.path("ckpt")).exists())

    def wait_for_resident(self, process, size_bytes: int):
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            if pages * os.sysconf("SC_PAGE_SIZE") >= size_bytes:
                return
            time.sleep(0.01)
        self.fail("the run did not get that far")


@unittest.skipIf(SANITIZED, ELSEWHERE)
class Killed(InFolder):
    WIDE = ["--layers", "2", "--width", "512", "--sequence", "8", "--batch", "1"]

    def test_in_mid_checkpoint_leaves_the_old_one_whole(self):
        words = [*self.WIDE, "--steps", "100000", "--checkpoint", "ckpt", "--checkpoint-every", "1"]
        for attempt in range(3):
            process = self.start(*words)
            until = time.monotonic() + LIMIT_S
            seen = 0
            while seen <= attempt and time.monotonic() < until:
                fresh = list(self.folder.glob("ckpt.tmp-*/optimizer.safetensors"))
                seen += bool(fresh) and (self.folder / "ckpt" / "state.json").exists()
            process.kill()
            process.wait()
            found = self.resumed_for_one_step()
            self.assertTrue(found["ok"])
        self.assertEqual(list(self.folder.glob("ckpt.tmp-*")), [])

    def resumed_for_one_step(self) -> dict:
        state = json.loads((self.folder / "ckpt" / "state.json").read_text())["state"]
        return self.trained(*self.WIDE, "--steps", str(state["steps_done"] + 1), "--resume", "ckpt",
                            "--checkpoint", "ckpt")


if __name__ == "__main__":
    unittest.main()
