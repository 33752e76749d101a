# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""How many tests passed: read from gtest's and ctest's XML, handed to tools/run_parts.py by file."""

import dataclasses
import json
import os
import pathlib
import xml.etree.ElementTree as ET

_FILE = "SPILLWAY_COUNTS_FILE"


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed"


def of_gtest(path: pathlib.Path) -> Counts:
    """The cases of one gtest program; nothing where it left no report, or half of one."""
    try:
        suites = ET.parse(path).getroot()
    except (OSError, ET.ParseError):
        return Counts()
    found = Counts()
    for case in suites.iter("testcase"):
        if case.find("failure") is not None:
            found.failed += 1
        elif case.get("result") == "skipped" or case.find("skipped") is not None:
            found.skipped += 1
        elif case.get("status", "run") == "run":
            found.passed += 1
    return found


def of_ctest(junit: pathlib.Path, reports: pathlib.Path) -> Counts:
    """All programs of one ctest run. A program that failed counts as one failure at least."""
    total = Counts()
    for program in ET.parse(junit).getroot().iter("testcase"):
        found = of_gtest(reports / f"{program.get('name')}.xml")
        if program.get("status") == "fail" and found.failed == 0:
            found.failed = 1
        elif program.find("skipped") is not None and found == Counts():
            found.skipped = 1
        total += found
    return total


def hand_over(found: Counts) -> None:
    """Leaves the counts where the calling tools/run_parts.py, if any, looks for them."""
    if path := os.environ.get(_FILE):
        pathlib.Path(path).write_text(json.dumps(dataclasses.asdict(found)))


def environment(path: pathlib.Path) -> dict[str, str]:
    return os.environ | {_FILE: str(path)}


def take(path: pathlib.Path) -> Counts | None:
    return Counts(**json.loads(path.read_text())) if path.exists() else None
