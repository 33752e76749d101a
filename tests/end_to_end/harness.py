# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the built programs, a scratch folder each, runs with a limit."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SPILLWAY_BINARY_DIR", ROOT / "build" / "torch"))
PROGRAM = BUILD / "bin" / "spillway"
PLAIN = BUILD / "bench" / "plain_train"
LIMIT_S = 900
# Under a sanitizer a run takes seconds to begin: what says nothing of memory that another case does not is left to
# the build that users run.
SANITIZED = BUILD.name.startswith("asan")
ELSEWHERE = "said by the build that users run; under a sanitizer budgets, checkpoints, replays and full disks are"

# Cases of seconds each, which `make test` leaves to `make test-all`; a shorter one beside them shows the same path.
long = unittest.skipIf(os.environ.get("SPILLWAY_TESTS") == "quick", "make test-all runs it")

# A model of seconds, whose saved tensors are some 40 MB a step.
SMALL = ["--layers", "3", "--width", "128", "--sequence", "256", "--batch", "8"]
# A model of milliseconds.
TINY = ["--layers", "1", "--width", "32", "--heads", "2", "--sequence", "32", "--batch", "2"]


class InFolder(unittest.TestCase):
    """Runs programs inside an empty folder, which no bad input may leave changed."""

    def setUp(self):
        scratch = BUILD / "scratch"  # on a disk: a system's temporary folder may be memory
        scratch.mkdir(exist_ok=True)
        holder = tempfile.TemporaryDirectory(prefix="e2e-", dir=scratch)
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def run_program(self, *words: str, program=PROGRAM, **options) -> subprocess.CompletedProcess:
        return subprocess.run([program, *words], cwd=self.folder, capture_output=True, text=True,
                              timeout=LIMIT_S, check=False, **options)

    def train(self, *words: str, **options) -> subprocess.CompletedProcess:
        return self.run_program("train", *words, **options)

    def trained(self, *words: str, program=PROGRAM) -> dict:
        """The results of a run that must succeed."""
        name = self.path("results.json")
        first = [] if program == PLAIN else ["train"]
        done = self.run_program(*first, *words, "--json", name, program=program)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(pathlib.Path(name).read_text())

    def start(self, *words: str, **options) -> subprocess.Popen:
        process = subprocess.Popen([PROGRAM, "train", *words], cwd=self.folder, text=True,
                                   stderr=subprocess.PIPE, **options)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def contents(self) -> dict[str, bytes | None]:
        return {str(p.relative_to(self.folder)): p.read_bytes() if p.is_file() else None
                for p in self.folder.rglob("*")}

    def assert_refused(self, words: list[str], naming: list[str], **options) -> str:
        """Exit code 2, one to three lines that hold the words of `naming`, nothing changed."""
        before = self.contents()
        done = self.run_program(*words, **options)
        said = done.stderr.strip()
        self.assertEqual(done.returncode, 2, (words, said))
        self.assertIn(len(said.splitlines()), (1, 2, 3), (words, said))
        for name in naming:
            self.assertIn(name, said, words)
        self.assertEqual(self.contents(), before, words)
        return said
