# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import pathlib
import tempfile
import unittest

import counts

GTEST = """<testsuites tests="3" failures="1"><testsuite name="s">
<testcase name="a" status="run" result="completed"/>
<testcase name="b" status="run" result="completed"><failure message="m"/></testcase>
<testcase name="c" status="run" result="skipped"><skipped message="m"/></testcase>
<testcase name="d" status="notrun" result="suppressed"/>
</testsuite></testsuites>"""
CTEST = """<testsuite>
<testcase name="whole" status="fail"/><testcase name="crashed" status="fail"/>
<testcase name="absent" status="notrun"><skipped/></testcase>
</testsuite>"""


class CountTests(unittest.TestCase):
    def test_cases_are_counted_and_a_crash_is_a_failure(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "whole.xml").write_text(GTEST)
            (root / "crashed.xml").write_text("<testsuites><tests")
            (root / "ctest.xml").write_text(CTEST)
            found = counts.of_ctest(root / "ctest.xml", root)
        self.assertEqual(found, counts.Counts(passed=1, failed=2, skipped=2))


if __name__ == "__main__":
    unittest.main()
