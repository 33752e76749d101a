# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""docs/cli.md is what the program's --help prints."""

import sys
import unittest

from harness import PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "tools"))
import cli_page


class CliPage(unittest.TestCase):
    def test_it_is_what_help_prints(self):
        self.assertEqual((ROOT / "docs/cli.md").read_text(), cli_page.page(str(PROGRAM)),
                         "run tools/cli_page.py after `make build`")


if __name__ == "__main__":
    unittest.main()
