# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""tools/setup.sh where it has to give up: one line that says what to do, exit code 2."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parent / "setup.sh"


class GivesUp(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.bin = pathlib.Path(holder.name)
        for tool in ("bash", "env", "dirname", "cut", "cat", "uname"):
            (self.bin / tool).symlink_to(shutil.which(tool))

    def stub(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!{shutil.which('bash')}\n{text}\n")
        (self.bin / name).chmod(0o755)

    def setup_sh(self, *words: str, **environment: str) -> subprocess.CompletedProcess:
        kept = {"PATH": str(self.bin), "HOME": "/"}
        return subprocess.run(["bash", str(SETUP), *words], env={**kept, **environment}, text=True,
                              capture_output=True, check=False)

    def test_without_root_the_exact_command_is_told(self) -> None:
        self.stub("dpkg-query", "exit 1")
        self.stub("id", "echo 1000")
        done = self.setup_sh("preflight", "bench")
        output = (done.stdout + done.stderr).strip()
        self.assertEqual((done.returncode, len(output.splitlines())), (2, 1), output)
        self.assertIn("`apt-get update && apt-get install -y fio`", output)

    def test_as_root_without_apt_get_too(self) -> None:
        self.stub("dpkg-query", "exit 1")
        self.stub("id", "echo 0")
        self.assertEqual(self.setup_sh("preflight", "bench").returncode, 2)

    def test_nothing_is_missing_nothing_is_said(self) -> None:
        self.stub("dpkg-query", "echo install ok installed")
        done = self.setup_sh("preflight", "build", "check", "bench")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_python_that_is_none_or_has_no_torch(self) -> None:
        for python, why in (("/no/such/python", "no such program"),
                            (sys.executable, "no torch 2.11 to 2.15 that imports")):
            if python == sys.executable and subprocess.run([python, "-c", "import torch"], capture_output=True,
                                                           check=False).returncode == 0:
                continue  # this very Python has one
            done = self.setup_sh("torch", SPILLWAY_PYTHON=python, PATH=os.environ["PATH"])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.strip(), f"SPILLWAY_PYTHON={python}: {why}")

    def test_an_unknown_word_shows_the_usage(self) -> None:
        done = self.setup_sh("nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage: tools/setup.sh", done.stderr)


if __name__ == "__main__":
    unittest.main()
