# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` leaves: docs/cpp.md's commands build and run the C++ example outside the tree."""

import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

from harness import BUILD, ROOT

SCRATCH = BUILD / "cpp_package"  # the same path each time, for the compiler's cache
PREFIX = SCRATCH / "prefix"


def commands() -> list[str]:
    """docs/cpp.md's, with this build, a folder of their own, and the build's compiler."""
    block = (ROOT / "docs/cpp.md").read_text().split("```sh\n")[1].split("```")[0].strip().splitlines()
    cache = (BUILD / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE).group(1)
    options = f" -D CMAKE_CXX_COMPILER={compiler}"
    if ccache := shutil.which("ccache"):
        options += f" -D CMAKE_CXX_COMPILER_LAUNCHER={ccache}"
    ours = []
    for line in block:
        line = line.replace("build/torch", shlex.quote(str(BUILD))).replace("$PWD/build/prefix", str(PREFIX))
        line = line.replace("build/prefix", str(PREFIX)).replace("build/examples", str(SCRATCH / "examples"))
        line = line.replace("cd build ", f"cd {SCRATCH} ")
        ours.append(line + options if line.startswith("cmake -S") else line)
    return [line for line in ours if line != "make build"]


def run(line: str) -> subprocess.CompletedProcess:
    return subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)


class CppPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        cls.addClassCleanup(shutil.rmtree, SCRATCH, ignore_errors=True)
        SCRATCH.mkdir()
        cls.lines = commands()
        install = run(cls.lines[0])
        assert install.returncode == 0, install.stdout + install.stderr

    def test_the_example_is_built_and_runs_outside_the_tree(self):
        self.assertEqual(len(self.lines), 4, self.lines)
        for line in self.lines[1:]:
            done = run(line)
            self.assertEqual(done.returncode, 0, line + done.stdout + done.stderr)
        self.assertIn("step 3  loss", done.stdout)
        self.assertRegex(done.stdout, r"device peak \d.*, [1-9].* written")

    def test_each_public_header_compiles_alone(self):
        torch = self.torch()
        public = sorted(path.name for path in (ROOT / "include/spillway").glob("*.h"))
        installed = sorted(path.name for path in (PREFIX / "include/spillway").glob("*.h"))
        self.assertEqual(installed, public)
        for name in public:
            done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-x", "c++", "-",
                                   f"-I{PREFIX}/include", "-isystem", f"{torch}/include"],
                                  input=f"#include <spillway/{name}>\n", capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)

    def test_only_public_structs_come_along(self):
        folders = sorted(path.name for path in (PREFIX / "include/spillway").iterdir() if path.is_dir())
        self.assertLessEqual(set(folders), {"base", "machine", "plan", "policy", "report", "timeline", "trace"})
        for header in (PREFIX / "include").rglob("*.h"):
            self.assertNotRegex(header.read_text(), r'#include "(?!spillway/)')
        self.assertEqual(sorted(path.name for path in PREFIX.iterdir()), ["bin", "include", "lib"])

    def test_another_torch_is_refused_in_one_line(self):
        other = SCRATCH / "other" / "share/cmake/Torch"
        other.mkdir(parents=True)
        (other / "TorchConfigVersion.cmake").write_text('set(PACKAGE_VERSION "2.9.1")\n')
        done = self.configure_with(SCRATCH / "other")
        self.assertIn(f"Spillway was built for torch {self.torch_version()}, and torch 2.9.1 is in", done.stderr)
        missing = self.configure_with(SCRATCH / "nothing")
        self.assertIn(f"no torch in {SCRATCH}/nothing", " ".join(missing.stderr.split()))

    def test_the_program_trains_in_the_prefix(self):
        done = subprocess.run([PREFIX / "bin/spillway", "train", "--layers", "1", "--width", "32", "--heads", "2",
                               "--sequence", "32", "--batch", "2", "--steps", "1"],
                              cwd=SCRATCH, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def configure_with(self, torch: pathlib.Path) -> subprocess.CompletedProcess:
        done = run(self.lines[1].replace(str(SCRATCH / "examples"), str(SCRATCH / torch.name / "build"))
                   + f" -D Spillway_TORCH={torch}")
        self.assertNotEqual(done.returncode, 0)
        return done

    @staticmethod
    def torch() -> str:
        config = (PREFIX / "lib/cmake/Spillway/SpillwayConfig.cmake").read_text()
        return re.search(r'set\(_spillway_torch "(.*)"\)', config).group(1)

    @staticmethod
    def torch_version() -> str:
        config = (PREFIX / "lib/cmake/Spillway/SpillwayConfig.cmake").read_text()
        return re.search(r"set\(Spillway_TORCH_VERSION (.*)\)", config).group(1)


if __name__ == "__main__":
    unittest.main()
