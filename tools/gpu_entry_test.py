# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

GPU = pathlib.Path(__file__).resolve().parents[1] / "bench" / "gpu"
sys.path.insert(0, str(GPU))

import entry  # noqa: E402


def ran(script: str, limit_s: float = 30) -> dict:
    with contextlib.redirect_stderr(io.StringIO()):
        return entry.run(["bash", "-c", script], limit_s)


class Run(unittest.TestCase):
    def test_the_last_line_is_the_line(self) -> None:
        self.assertEqual(ran("""echo words; echo '{"rate": 2}'"""), {"rate": 2, "exit_code": 0})

    def test_what_prints_no_json_is_a_check(self) -> None:
        self.assertEqual(ran("echo one; echo two"),
                         {"kind": "check", "said": "two", "error": None, "exit_code": 0})

    def test_a_failure_says_why(self) -> None:
        self.assertEqual(ran("echo broken >&2; exit 3")["error"], "exit code 3: broken")
        self.assertEqual(ran("""echo '{"error": "no room"}'; exit 1""")["error"], "no room")
        self.assertEqual(ran("""echo '{"error": null}'; exit 1""")["exit_code"], 1)
        self.assertIn("exit code 1", ran("""echo '{"error": null}'; exit 1""")["error"])

    def test_a_skip_is_no_failure(self) -> None:
        skipped = ran("echo no GPU >&2; exit 77")
        self.assertEqual((skipped["skipped"], skipped["error"]), ("no GPU", None))

    def test_too_long_is_killed_with_its_children(self) -> None:
        begin = time.monotonic()
        self.assertIn("not done after", ran("echo started; sleep 3000 & sleep 3000", 0.3)["error"])
        self.assertLess(time.monotonic() - begin, 1500)

    def test_no_time_left_and_no_program(self) -> None:
        self.assertIn("not run", ran("true", 0)["error"])
        self.assertIn("cannot be run", entry.run(["/no/such/program"], 1)["error"])


class Program(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.out = pathlib.Path(holder.name) / "out.jsonl"

    def entry(self, name: str, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, GPU / "entry.py", "--out", self.out, "--name", name, "--round", "2",
                               "--limit", "600", "--deadline", str(time.time() + 600), *words],
                              capture_output=True, text=True, check=False)

    def test_each_call_adds_one_line(self) -> None:
        self.assertEqual(self.entry("good", "--", "true").returncode, 0)
        self.assertEqual(self.entry("bad", "--", "false").returncode, 1)
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        self.assertEqual([(line["entry"], line["round"], bool(line["error"])) for line in lines],
                         [("good", 2, False), ("bad", 2, True)])

    def test_what_a_check_printed_is_shown(self) -> None:
        self.assertEqual(self.entry("seconds", "--", "echo", "1/1 Passed 3 sec").stderr, "1/1 Passed 3 sec\n")

    def test_what_must_fail_fails_by_succeeding_or_otherwise(self) -> None:
        for script, code in (("echo it is out of memory >&2; exit 1", 0), ("echo no disk >&2; exit 1", 1),
                             ("true", 1)):
            done = self.entry("must fail", "--fails-with", "out of memory", "--", "bash", "-c", script)
            self.assertEqual(done.returncode, code, script)
            self.assertIn("(it had to say: out of memory)", done.stdout)


OK = "exit 0"
GPU_NAMED = "echo NVIDIA H100 80GB HBM3, 81559"
# In fixed segments memory is in pieces; plain training under a cap has no room; everything else prints one line of JSON.
IN_PIECES = """case "${PYTORCH_CUDA_ALLOC_CONF:-}" in *False*) echo free memory in pieces >&2; exit 1;; esac"""
MODES = IN_PIECES + """
case "$*" in *"--mode plain --cap 25769803776"*) echo CUDA out of memory >&2; exit 1;; esac
echo '{"kind": "training", "error": null}'"""


class Script(unittest.TestCase):
    """run.sh in a tree of its own, where every program that it calls is a stub."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)
        for name in ("bench/gpu/run.sh", "bench/gpu/entry.py", "bench/gpu/machine.py", "bench/common.py"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(GPU.parents[1] / name, self.root / name)
        for tool in ("cmake", "ctest", "ninja", "flock", "g++", "compute-sanitizer"):
            self.stub(f"bin/{tool}", OK)
        self.stub("bin/nvidia-smi", GPU_NAMED)
        for program in ("tools/setup.sh", "tools/build.sh", "build/gpu/bench/nvme_bench",
                        "build/gpu/bench/gpu_codec_bench"):
            self.stub(program, OK)
        self.stub("build/gpu/bench/gpu_torch_bench", MODES)
        self.stub("python", "exit 0")

    def stub(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(f"#!/bin/bash\n{text}\n")
        (self.root / path).chmod(0o755)

    def run_sh(self, *stages: str, **environment: str) -> subprocess.CompletedProcess:
        path = f"{self.root}/bin:{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"
        return subprocess.run(["/bin/bash", self.root / "bench/gpu/run.sh", *stages], text=True, check=False,
                              capture_output=True, env={"PATH": path, "GPU_FILE": "out.jsonl",
                                                        "SPILLWAY_PYTHON": str(self.root / "python"), **environment})

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in (self.root / "out.jsonl").read_text().splitlines()]

    def test_without_a_gpu_one_line_and_77(self) -> None:
        done = self.run_sh(PATH="/no/such/folder")
        self.assertEqual((done.returncode, len(done.stderr.splitlines()), done.stdout), (77, 1, ""))
        self.assertIn("no GPU here", done.stderr)

    def test_all_is_well(self) -> None:
        done = self.run_sh()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"{len(self.lines())} lines, 0 failed", done.stdout.splitlines()[-1])
        self.assertGreater(len(self.lines()), 20)

    def test_what_the_build_needs_is_named_before_anything_runs(self) -> None:
        script = "echo '<stdin>:2:2: error: #error spillway-needs <fmt/format.h>' >&2; exit 1"
        self.stub("bin/g++", script)
        done = self.run_sh()
        self.assertEqual((done.returncode, len(done.stderr.splitlines()), done.stdout), (2, 1, ""))
        self.assertIn("the header <fmt/format.h> is not here", done.stderr)
        self.assertIn("`make gpu-packages`", done.stderr)
        self.assertFalse((self.root / "out.jsonl").exists())

    def test_without_a_build_nothing_else_runs(self) -> None:
        (self.root / "build/gpu/bench/gpu_torch_bench").unlink()
        self.stub("tools/build.sh", "echo error: no such header; exit 3")
        done = self.run_sh()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([line["entry"] for line in self.lines()], ["machine", "first light", "build"])
        self.assertIn("there is no build, nothing is measured", done.stderr)
        self.assertIn("error: no such header", done.stderr)

    def test_a_failed_entry_is_counted_and_the_next_ones_run(self) -> None:
        self.stub("bin/ctest", "exit 8")
        done = self.run_sh()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("3 failed", done.stdout.splitlines()[-1])
        self.assertGreater(len(self.lines()), 20)

    def test_plain_training_that_fits_under_the_cap_is_a_failure(self) -> None:
        self.stub("build/gpu/bench/gpu_torch_bench", IN_PIECES + """
echo '{"error": null}'""")
        done = self.run_sh()
        self.assertEqual((done.returncode, "1 failed" in done.stdout.splitlines()[-1]), (1, True), done.stdout)

    def test_a_stage_runs_alone_and_adds_to_the_file(self) -> None:
        self.assertEqual(self.run_sh("codecs").returncode, 0)
        self.assertEqual(self.run_sh("sanitizers").returncode, 0)
        self.assertEqual([line["entry"] for line in self.lines()],
                         ["ceilings", "codecs", "nvme ceiling", "compute-sanitizer memcheck", "compute-sanitizer racecheck"])

    def test_a_stage_that_needs_a_build_asks_for_it(self) -> None:
        (self.root / "build/gpu/bench/gpu_torch_bench").unlink()
        done = self.run_sh("gpt2")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1))
        self.assertIn("run the stage build first", done.stderr)

    def test_a_stage_that_is_not_there_is_refused(self) -> None:
        done = self.run_sh("gpt3")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1))
        self.assertIn("gpt3: no such stage; they are build tests", done.stderr)
        self.assertFalse((self.root / "out.jsonl").exists())

    def test_the_time_of_all_stages_ends_them(self) -> None:
        done = self.run_sh("codecs", GPU_SECONDS="0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("3 failed", done.stdout.splitlines()[-1])
        self.assertIn("not run: the time", self.lines()[0]["error"])

    def test_a_rehearsal_asks_for_no_gpu_and_checks_flags_alone(self) -> None:
        (self.root / "bin/nvidia-smi").unlink()
        self.stub("bin/compute-sanitizer", "exit 9")
        self.stub("build/gpu/bench/gpu_torch_bench", """case "$*" in *--dry-run*) exit 0;; esac; exit 9""")
        done = self.run_sh("gpt2", "sanitizers", GPU_REHEARSAL="1", SPILLWAY_COMMIT="abc")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
