# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The package's types in a project of a user's, outside of this tree, as `mypy --strict` sees them there."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import lightning  # noqa: F401  mypy reads them: where they are not there, this file is skipped
import mypy  # noqa: F401
import transformers  # noqa: F401

PROJECT = pathlib.Path(__file__).resolve().parent / "user_project"
BUILD = pathlib.Path(os.environ["SPILLWAY_BINARY_DIR"])


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """An environment with the package beside torch, as installed: its `py.typed` is what makes its types count."""
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "environment"], check=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        paths = [sysconfig.get_path("purelib"), BUILD / "python"]
        (folder / "environment" / "lib" / version / "site-packages" / "of_the_tests.pth").write_text(
            "".join(f"{path}\n" for path in paths))
        for file in PROJECT.glob("*.py"):
            shutil.copy(file, folder)
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MYPY"))}
        cls.checked = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--python-executable", folder / "environment" / "bin" / "python",
             "--cache-dir", BUILD / "scratch" / "mypy", "train.py", "mistakes.py"],
            cwd=folder, env=outside, capture_output=True, text=True, check=False)

    def found_in(self, file: str) -> list[tuple[int, str]]:
        """Line and code of each error."""
        found = re.findall(rf"(?m)^{file}:(\d+): error: .*\[([a-z-]+)\]$", self.checked.stdout)
        return [(int(line), code) for line, code in found]

    def test_a_strict_project_has_no_error(self):
        self.assertEqual(self.found_in("train.py"), [], self.checked.stdout)
        self.assertEqual(self.checked.stderr, "")

    def test_every_wrong_use_is_found_and_nothing_else(self):
        lines = enumerate((PROJECT / "mistakes.py").read_text().splitlines(), 1)
        expected = [(number, code[1]) for number, line in lines if (code := re.search(r"  # ([a-z-]+)$", line))]
        self.assertGreater(len(expected), 15)
        self.assertEqual(self.found_in("mistakes.py"), expected, self.checked.stdout)


if __name__ == "__main__":
    unittest.main()
