# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""docs/systems.md: its tables of states and of policies name what the catalogue has. The tables of numbers are checked by the tests of
the benches that make them."""

import pathlib
import re
import unittest

import spillway

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "systems.md").read_text(encoding="utf-8")
NAME = re.compile(r"`([a-z0-9_]+)`")


def rows(head: str) -> list[list[str]]:
    """Cells of every table whose first columns are these."""
    found = []
    for part in PAGE.split("\n" + head)[1:]:
        table = part.partition("\n\n")[0].splitlines()[2:]
        found += [[cell.strip() for cell in line.strip("|").split(" |")] for line in table]
    return found


class Systems(unittest.TestCase):
    policies = {policy.name: policy for policy in spillway.policies()}

    def test_a_system_is_begun_where_the_catalogue_has_its_policy(self):
        states = rows("| system | name here | needs | state |")
        self.assertGreater(len(states), 15)
        for system, names, _, state in states:
            for name in NAME.findall(names):
                self.assertEqual(name in self.policies, state != "not begun", f"{system}: `{name}`")
                self.assertRegex(state, r"^(works|in part|not begun)", system)

    def test_what_decides_is_said_of_every_policy_that_plans(self):
        told = [name for cells in rows("| policy | what decides |") for name in NAME.findall(cells[0])]
        self.assertEqual(sorted(told), sorted(name for name, policy in self.policies.items() if policy.plans))

    def test_numbers_are_of_policies_that_there_are(self):
        told = [NAME.findall(cells[0])[0] for cells in rows("| policy | transformers, ")]
        self.assertGreater(len(told), 15)
        self.assertLessEqual(set(told), set(self.policies))


if __name__ == "__main__":
    unittest.main()
