# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`pip install .` in a virtual environment that holds torch and nothing else, and in one without."""

import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ["SPILLWAY_BINARY_DIR"])
DEFAULT_TORCH = "2.15"


def as_the_build(name: str) -> list[str]:
    """A setting of CMake's that the build has, for pip: then the compiler's cache has the files."""
    (line,) = [line for line in (BUILD / "CMakeCache.txt").read_text().splitlines() if line.startswith(name + ":")]
    return ["--config-settings", f"cmake.define.{name}={line.partition('=')[2]}"]


def readme_example(folder: pathlib.Path) -> str:
    """README's, on a disk that is here."""
    block = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    return block.replace('nvme="."', f'nvme="{folder}"') + "\nprint(session.report()['stored_bytes'] > 0, spillway.__file__)"


class Install(unittest.TestCase):
    """The environments are made anew; the torch in one is this one's, by a path file: it is not copied."""

    @classmethod
    def setUpClass(cls):
        if not torch.__version__.startswith(DEFAULT_TORCH):
            raise unittest.SkipTest(f"pip's build is tried with torch {DEFAULT_TORCH} alone: it takes minutes")
        cls.scratch = tempfile.TemporaryDirectory(dir=BUILD)
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)

    def environment(self, name: str, has_torch: bool) -> pathlib.Path:
        home = self.folder / name
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        if has_torch:
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            site = home / "lib" / version / "site-packages"
            (site / "torch_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
        return home / "bin" / "python"

    @staticmethod
    def run_in(python: pathlib.Path, *words: str) -> subprocess.CompletedProcess:
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPILLWAY"))}
        return subprocess.run([python, *words], capture_output=True, text=True, check=False, cwd="/", env=outside)

    def test_beside_torch(self):
        python = self.environment("with-torch", True)
        done = self.run_in(python, "-m", "pip", "install", "--disable-pip-version-check", str(ROOT),
                           *as_the_build("CMAKE_CXX_COMPILER"), *as_the_build("CMAKE_CXX_FLAGS"))
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        self.assertNotRegex(done.stdout, r"(?m)^ *Downloading torch-\d")
        self.assertRegex(done.stdout, r"torch_spillway-[\d.]+-py3-none-linux_x86_64\.whl")
        ran = self.run_in(python, "-c", readme_example(self.folder))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(f"True {python.parent.parent}", ran.stdout)
        for program in ([str(python), "-m", "spillway"], [str(python.parent / "spillway")]):
            told = subprocess.run([*program, "train", "--help"], capture_output=True, text=True, check=False)
            self.assertEqual((told.returncode, told.stderr), (0, ""))
            self.assertIn("--device-budget", told.stdout)
        trained = self.run_in(python, "-m", "spillway", "train", "--layers", "1", "--width", "64", "--steps", "1",
                              "--sequence", "32", "--batch", "1", "--heads", "2")
        self.assertEqual(trained.returncode, 0, trained.stderr)

    def test_without_torch(self):
        python = self.environment("without-torch", False)
        done = self.run_in(python, "-m", "pip", "install", "--disable-pip-version-check", str(ROOT))
        self.assertNotEqual(done.returncode, 0)
        said = [line for line in done.stderr.splitlines() if "spillway:" in line]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("there is no torch in this environment; install torch 2.11 to 2.15 into it first", said[0])
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
