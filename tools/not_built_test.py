# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Tools that need what is not there: one line that says what to do, exit code 2."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent


class NotBuilt(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def says(self, *words: str | pathlib.Path) -> str:
        done = subprocess.run([sys.executable, TOOLS / words[0], *words[1:]], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done.stderr)
        return done.stderr.strip()

    def test_the_command_that_builds_it_is_named(self) -> None:
        late = self.folder / "tests" / "spillway_late_torch_test"
        for words, program, command in (
                (("cli_page.py", self.folder / "spillway"), self.folder / "spillway", "make build"),
                (("seeds.py", "--build", self.folder), late, "make test-seeds"),
                (("mutants.py", "--build", self.folder), late, "make mutants")):
            with self.subTest(words[0]):
                self.assertEqual(self.says(*words), f"{program} is not built; `{command}` builds it")

    def test_an_argument_that_is_missing_is_named(self) -> None:
        for words, usage in ((("count_tests.py",), "FOLDER"), (("count_tests.py", self.folder), "FOLDER"),
                             (("check_forwarding.py",), "INCLUDE_FOLDER")):
            with self.subTest(words):
                self.assertRegex(self.says(*words), rf"\Ausage: tools/{words[0]} {usage}")

    def test_a_program_whose_help_fails_leaves_the_page(self) -> None:
        program = self.folder / "spillway"
        program.write_text("#!/bin/sh\necho no help >&2\nexit 3\n")
        program.chmod(0o755)
        page = (TOOLS.parent / "docs/cli.md").read_text()
        self.assertEqual(self.says("cli_page.py", program), f"`{program} --help` ended with 3: no help")
        self.assertEqual((TOOLS.parent / "docs/cli.md").read_text(), page)


if __name__ == "__main__":
    unittest.main()
