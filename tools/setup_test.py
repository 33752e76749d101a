# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""tools/setup.sh where it has to give up: one line that says what to do, exit code 2. And what it downloads."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parent / "setup.sh"
NEEDED = ("bash", "env", "dirname", "cut", "cat", "uname", "cksum", "mkdir", "touch", "rm", "flock", "chmod")
# A Python whose torch is $TORCH. Its `-m venv FOLDER` makes another one. pip leaves its words in $LOG.
PYTHON = """case "$*" in
    *find_torch.py) [[ -n ${TORCH:-} ]] && echo "$TORCH;/torch" ;;
    "-m venv "*) mkdir -p "$3/bin" && { printf '#!%s\nTORCH=2.15.0\n' "$BASH"; cat "$0"; } >"$3/bin/python" &&
        chmod +x "$3/bin/python" ;;
    "-m pip "*) echo "$*" >>"$LOG" ;;
    *sysconfig*) echo /tools ;;
esac"""


class WithStubs(unittest.TestCase):
    setup = SETUP

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.bin = pathlib.Path(holder.name)
        for tool in NEEDED:
            (self.bin / tool).symlink_to(shutil.which(tool))

    def stub(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!{shutil.which('bash')}\n{text}\n")
        (self.bin / name).chmod(0o755)

    def setup_sh(self, *words: str, **environment: str) -> subprocess.CompletedProcess:
        kept = {"PATH": str(self.bin), "HOME": "/"}
        return subprocess.run(["bash", str(self.setup), *words], env={**kept, **environment}, text=True,
                              capture_output=True, check=False)


class GivesUp(WithStubs):
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


class Downloads(WithStubs):
    """All of `make setup`, in a tree of its own."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.bin / "log"
        self.setup = self.bin / "tree" / "tools" / "setup.sh"
        for wanted in ("tools/setup.sh", "tools/packages.txt", "tools/requirements.txt", "tools/site/requirements.txt",
                       "tests/python/requirements.txt", "tests/python/requirements-alone.txt"):
            copy = self.bin / "tree" / wanted
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SETUP.parent.parent / wanted, copy)
        self.stub("dpkg-query", "echo install ok installed")
        self.stub("python3", PYTHON)
        self.yours = self.bin / "theirs" / "bin" / "python"
        self.yours.parent.mkdir(parents=True)
        self.yours.symlink_to(self.bin / "python3")

    def installed(self, **environment: str) -> str:
        """What is given to pip."""
        for verb in (["packages", "build", "check"], ["tools"], ["docs"], ["torch"], ["tests"]):
            done = self.setup_sh(*verb, LOG=str(self.log), **environment)
            self.assertEqual(done.returncode, 0, done.stderr)
        return self.log.read_text()

    def test_with_a_torch_of_yours_what_the_checks_use_and_no_torch(self) -> None:
        for name, value in (("SPILLWAY_PYTHON", self.yours), ("VIRTUAL_ENV", self.yours.parent.parent)):
            with self.subTest(name):
                said = self.installed(TORCH="2.13.0", **{name: str(value)}).splitlines()
                self.assertEqual([line.split()[-1] for line in said],
                                 ["tools/requirements.txt", "tools/site/requirements.txt"])
                self.assertEqual({file.name for file in (self.bin / "tree" / ".venv").glob("[!.]*")}, {"tools", "docs"})
                found = self.setup_sh("yours", TORCH="2.13.0", **{name: str(value)})
                self.assertEqual(found.stdout.strip(), str(self.yours))
                self.assertEqual(self.setup_sh("yours", "2.12.0", TORCH="2.13.0", **{name: str(value)}).stdout, "")
                shutil.rmtree(self.bin / "tree" / ".venv")
                self.log.unlink()

    def test_an_environment_without_torch_is_not_used(self) -> None:
        environment = {"VIRTUAL_ENV": str(self.yours.parent.parent)}
        self.assertIn(" torch==2.15.0 ", self.installed(**environment))
        self.assertEqual(self.setup_sh("yours", **environment).stdout, "")

    def test_without_one_torch_and_what_its_tests_use_as_well(self) -> None:
        said = self.installed()
        for wanted in (" torch==2.15.0 ", " tests/python/requirements.txt", " tools/requirements.txt"):
            self.assertIn(wanted, said)
        self.assertEqual(self.setup_sh("yours").stdout, "")


if __name__ == "__main__":
    unittest.main()
