# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`pip install .` in a virtual environment that holds torch and nothing else, and in one without. It is compiled as
on a machine where none of the libraries is installed; what is compiled where they are is in wheel_test.py."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ["SPILLWAY_BINARY_DIR"])
DEFAULT_TORCH = "2.15"
TOO_LONG = f"packages are tried with torch {DEFAULT_TORCH} alone: it takes minutes"


def compiler_of_the_build() -> str:
    cache = (BUILD / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE).group(1)


def readme_example(folder: pathlib.Path) -> str:
    """README's, on a disk that is here."""
    block = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    return block.replace('nvme="."', f'nvme="{folder}"') + "\nprint(session.report()['stored_bytes'] > 0, spillway.__file__)"


def environment(home: pathlib.Path, has_torch: bool) -> pathlib.Path:
    """The Python of a new one; the torch in it is this one's, by a path file: it is not copied."""
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    if has_torch:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = home / "lib" / version / "site-packages"
        (site / "torch_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin" / "python"


def run_in(python: pathlib.Path, *words: str) -> subprocess.CompletedProcess:
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPILLWAY"))}
    return subprocess.run([python, *words], capture_output=True, text=True, check=False, cwd="/", env=outside)


def pip(python: pathlib.Path, *words: str) -> subprocess.CompletedProcess:
    return run_in(python, "-m", "pip", "install", "--disable-pip-version-check", *words)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not torch.__version__.startswith(DEFAULT_TORCH):
            raise unittest.SkipTest(TOO_LONG)
        cls.scratch = tempfile.TemporaryDirectory(dir=BUILD)
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)

    def test_beside_torch(self):
        python = environment(self.folder / "with-torch", True)
        done = pip(python, "-v", str(ROOT), "-C", "cmake.define.SPILLWAY_SYSTEM_LIBRARIES=OFF",
                   "-C", "cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0",  # two thirds of the time, and no time of it counts
                   "-C", f"cmake.define.CMAKE_CXX_COMPILER={compiler_of_the_build()}")
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        self.assertNotRegex(done.stdout, r"(?m)^ *Downloading torch-\d")
        self.assertRegex(done.stdout, r"torch_spillway-[\d.]+-py3-none-linux_x86_64\.whl")
        for library in ("liburing", "libhwy", "CLI11"):
            self.assertRegex(done.stdout + done.stderr, rf"(?m)^ *-- spillway: built without {library}: .*; on Debian: apt-get install")
        ran = run_in(python, "-c", readme_example(self.folder))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(f"True {python.parent.parent}", ran.stdout)
        for start in ([python, "-m", "spillway"], [python.parent / "spillway"]):
            program = run_in(*start, "train", "--help")
            self.assertEqual((program.returncode, program.stdout), (2, ""))
            self.assertRegex(program.stderr, r"\Aspillway: .*built without the program.*libcli11-dev.*\n\Z")

    def test_without_torch(self):
        python = environment(self.folder / "without-torch", False)
        done = pip(python, str(ROOT))
        self.assertNotEqual(done.returncode, 0)
        said = [line for line in done.stderr.splitlines() if "spillway:" in line]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("there is no torch in this environment; install torch 2.11 to 2.15 into it first", said[0])
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
