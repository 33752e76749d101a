# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The wheel of `make wheel`, of this build's objects, in a virtual environment that holds torch and nothing else."""

import email
import os
import pathlib
import subprocess
import tempfile
import unittest
import zipfile

import pip_test
import torch

LIBRARIES = ("libfmt", "libhwy", "libxxhash", "libzstd", "liburing")


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not torch.__version__.startswith(pip_test.DEFAULT_TORCH):
            raise unittest.SkipTest(pip_test.TOO_LONG)
        scratch = tempfile.TemporaryDirectory(dir=pip_test.BUILD)
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        made = subprocess.run(["tools/wheel.sh", os.path.relpath(pip_test.BUILD, pip_test.ROOT), cls.folder / "wheels"],
                              cwd=pip_test.ROOT, capture_output=True, text=True, check=False, env=outside)
        assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
        cls.wheel = made.stdout.strip()
        cls.python = pip_test.environment(cls.folder / "bare", True)
        done = pip_test.pip(cls.python, "--no-deps", cls.wheel)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_its_name_says_where_it_runs(self):
        self.assertRegex(self.wheel, r"torch_spillway-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl$")

    def test_it_requires_the_torch_that_it_was_built_for(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            name, = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            described = email.message_from_bytes(wheel.read(name))
        self.assertEqual(described.get_all("Requires-Dist"), [f"torch=={torch.__version__.partition('+')[0]}"])
        missing = pip_test.run_in(self.python, "-m", "pip", "check", "--disable-pip-version-check").stdout
        self.assertNotIn("torch-spillway", missing)

    def test_it_trains_with_the_libraries_inside(self):
        maps = "\nprint(open('/proc/self/maps').read())"
        ran = pip_test.run_in(self.python, "-c", pip_test.readme_example(self.folder) + maps)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        home = self.python.parent.parent
        self.assertIn(f"True {home}", ran.stdout)
        for library in LIBRARIES:
            self.assertIn(f"torch_spillway.libs/{library}-", ran.stdout)
        ours = [line for line in ran.stdout.splitlines() if "spillway" in line and "/" in line and ".so" in line]
        self.assertEqual([line for line in ours if str(home) not in line], [])

    def test_its_program_trains(self):
        for program in (self.python, self.python.parent / "spillway"):
            words = ["-m", "spillway"] if program == self.python else []
            told = pip_test.run_in(program, *words, "train", "--help")
            self.assertEqual((told.returncode, told.stderr), (0, ""))
            self.assertIn("--device-budget", told.stdout)
        trained = pip_test.run_in(self.python, "-m", "spillway", "train", "--layers", "1", "--width", "64",
                                  "--steps", "1", "--sequence", "32", "--batch", "1", "--heads", "2")
        self.assertEqual(trained.returncode, 0, trained.stderr)


if __name__ == "__main__":
    unittest.main()
