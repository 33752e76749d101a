# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The package where its library or its torch is another one, and as a program."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import spillway
import torch

BUILD = pathlib.Path(os.environ["SPILLWAY_BINARY_DIR"])


class Import(unittest.TestCase):
    def test_a_library_that_does_not_load_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "spillway"
            shutil.copytree(BUILD / "python" / "spillway", package, ignore_dangling_symlinks=True,
                            ignore=shutil.ignore_patterns("libspillway.so", "bin"))
            (package / "lib" / "libspillway.so").write_bytes(b"no library")
            done = subprocess.run([sys.executable, "-c", "import spillway"], capture_output=True, text=True,
                                  env=os.environ | {"PYTHONPATH": folder}, check=False, cwd=folder)
        self.assertRegex(done.stderr.splitlines()[-1], "LibraryError: .*libspillway.so does not load beside torch")

    def test_another_torch_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(BUILD / "python" / "spillway", pathlib.Path(folder) / "spillway", ignore_dangling_symlinks=True)
            (pathlib.Path(folder) / "spillway" / "lib" / "torch_version").write_text("1.2.3\n")
            done = subprocess.run([sys.executable, "-c", "import spillway"], capture_output=True, text=True,
                                  env=os.environ | {"PYTHONPATH": folder}, check=False, cwd=folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr.splitlines()[-1], "TorchVersionError: this Spillway was built for torch 1.2.3")

    def test_the_sources_alone_say_that_they_are_no_package(self):
        sources = pathlib.Path(spillway.__file__).resolve().parent
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(sources, pathlib.Path(folder) / "spillway", ignore=shutil.ignore_patterns("__pycache__"))
            done = subprocess.run([sys.executable, "-c", "import spillway"], capture_output=True, text=True,
                                  env=os.environ | {"PYTHONPATH": folder}, check=False, cwd=folder)
        self.assertRegex(done.stderr.splitlines()[-1], "LibraryError: .* has no library in it")

    @unittest.skipUnless((BUILD / "bin" / "spillway").exists(), "the program is not built here, the library alone is")
    def test_the_module_is_the_program(self):
        for words, code in ((["--help"], 0), (["train", "--nonsense"], 2)):
            mine = subprocess.run([sys.executable, "-m", "spillway", *words], capture_output=True, text=True, check=False)
            program = subprocess.run([str(BUILD / "bin" / "spillway"), *words], capture_output=True, text=True, check=False)
            self.assertEqual((mine.returncode, mine.stdout, mine.stderr), (code, program.stdout, program.stderr))

    @unittest.skipUnless((BUILD / "bin" / "spillway").exists(), "the program is not built here, the library alone is")
    def test_the_program_starts_without_an_import_of_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            fake = pathlib.Path(folder) / "torch"
            fake.mkdir()
            (fake / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
            sources = pathlib.Path(spillway.__file__).resolve().parent.parent
            done = subprocess.run([sys.executable, "-c", "import spillway_program; spillway_program.main()", "--help"], capture_output=True,
                                  text=True, check=False,
                                  env=os.environ | {"PYTHONPATH": os.pathsep.join([folder, str(BUILD / "python"), str(sources)])})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("Usage: spillway", done.stdout)


if __name__ == "__main__":
    unittest.main()
