# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""How tools/mutants.py reads the end of a suite; the suite is a stub here."""

import pathlib
import tempfile
import unittest

import mutants


class BreakOne(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.suite = pathlib.Path(holder.name) / "suite"

    def broken(self, script: str, seconds: float = 60) -> mutants.Outcome:
        self.suite.write_text(f"#!/bin/bash\n{script}\n")
        self.suite.chmod(0o755)
        return mutants.break_one(self.suite, "a_rule", 200, "*", seconds)

    def test_what_the_suite_noticed_is_killed(self) -> None:
        self.assertEqual(self.broken("echo killed by $SPILLWAY_BREAK; exit 9"), ("a_rule", "killed", "a_rule"))

    def test_an_assertion_or_a_crash_kills_too(self) -> None:
        output = self.broken("echo '[ RUN      ] A.case'; echo 'an assertion failed: x'; kill -6 $$")
        self.assertEqual(output.end, "killed")
        self.assertEqual(output.how, "A.case ended with -6: an assertion failed: x")

    def test_the_first_test_that_failed_is_named(self) -> None:
        failed = "echo '[  FAILED  ] A.case (3 ms)'; echo '[  FAILED  ] A.other (1 ms)'; exit 1"
        self.assertEqual(self.broken(failed), ("a_rule", "killed", "A.case failed"))

    def test_every_suite_has_rules(self) -> None:
        for suite in mutants.SUITES:
            self.assertGreater(len(mutants.rules(suite)), 20, suite.header)

    def test_what_passes_survived(self) -> None:
        self.assertEqual(self.broken("exit 0").end, "SURVIVED")

    def test_what_is_not_done_in_time_hung_and_is_not_killed(self) -> None:
        hung = self.broken("exec sleep 60", seconds=0.2)
        self.assertEqual(hung.end, "HUNG")
        self.assertIn("not done after 0 s", hung.how)


if __name__ == "__main__":
    unittest.main()
