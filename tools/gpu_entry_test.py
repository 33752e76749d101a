# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import json
import pathlib
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
        self.assertIn("not done after", ran("echo started; sleep 60 & sleep 60", 0.3)["error"])
        self.assertLess(time.monotonic() - begin, 20)

    def test_no_time_left_and_no_program(self) -> None:
        self.assertIn("not run", ran("true", 0)["error"])
        self.assertIn("cannot be run", entry.run(["/no/such/program"], 1)["error"])


class Program(unittest.TestCase):
    def test_each_call_adds_one_line(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.jsonl"
            for name, command in (("good", "true"), ("bad", "false")):
                done = subprocess.run([sys.executable, GPU / "entry.py", "--out", out, "--name", name, "--round",
                                       "2", "--limit", "20", "--deadline", str(time.time() + 20), "--", command],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual([(line["entry"], line["round"], bool(line["error"])) for line in lines],
                         [("good", 2, False), ("bad", 2, True)])


class Script(unittest.TestCase):
    def test_without_a_gpu_one_line_and_77(self) -> None:
        done = subprocess.run(["/bin/bash", GPU / "run.sh"], env={"PATH": "/no/such/folder"},
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, len(done.stderr.splitlines()), done.stdout), (77, 1, ""))
        self.assertIn("no GPU here", done.stderr)


if __name__ == "__main__":
    unittest.main()
