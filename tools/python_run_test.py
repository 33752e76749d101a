# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "end_to_end" / "run.py"


class RunTests(unittest.TestCase):
    def run_file(self, text: str) -> tuple[int, str, str]:
        with tempfile.TemporaryDirectory() as folder:
            file, report = pathlib.Path(folder) / "some_test.py", pathlib.Path(folder) / "some.xml"
            file.write_text(text)
            done = subprocess.run([sys.executable, RUN, file, report], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, report.read_text()

    def test_what_the_environment_has_not_is_a_skip_with_its_reason(self) -> None:
        code, output, report = self.run_file("import no_such_package\n")
        self.assertEqual(code, 0)
        self.assertIn("some_test: skipped: ", output)
        self.assertIn("has no no_such_package; pip install -r tests/python/requirements.txt", output)
        self.assertIn("<skipped", report)

    def test_a_file_that_does_not_load_fails(self) -> None:
        code, _, report = self.run_file("import spillway.nothing\n")
        self.assertEqual(code, 1)
        self.assertIn("<failure", report)


if __name__ == "__main__":
    unittest.main()
