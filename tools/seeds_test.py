# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What tools/seeds.py keeps of a suite that failed; the suite is a stub here."""

import pathlib
import tempfile
import unittest

import seeds


class Run(unittest.TestCase):
    def run_script(self, script: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            suite = pathlib.Path(folder) / "suite"
            suite.write_text(f"#!/bin/bash\n{script}\n")
            suite.chmod(0o755)
            return seeds.run(suite, seeds.Chunk("*", 1, 1))

    def test_failures_are_kept_beside_a_long_stderr(self) -> None:
        status, text = self.run_script("echo '[  PASSED  ] 9 tests.'; echo 'a.cc:3: Failure'; echo 'late: seed 7'; "
                                 "yes noise | head -c 100000 >&2; exit 1")
        self.assertEqual(status, 1)
        self.assertTrue(text.startswith("a.cc:3: Failure\nlate: seed 7\n"), text[:100])
        self.assertNotIn("PASSED", text)

    def test_a_signal_is_named(self) -> None:
        status, text = self.run_script("kill -15 $$")
        self.assertEqual((status, text.splitlines()[-1]), (-15, "ended by signal 15"))


if __name__ == "__main__":
    unittest.main()
