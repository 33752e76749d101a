#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Runs one *_test.py here and leaves its counts as gtest does: run.py FILE REPORT.xml. In a user's own environment,
where set-up installs nothing, a file that imports what is not there is skipped with that reason."""

import importlib
import pathlib
import sys
import unittest
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Recording(unittest.TextTestResult):
    """Keeps the name and the end of each case."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.cases: list[tuple[str, str]] = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.cases.append((test.id(), "passed"))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.cases.append((test.id(), "failed"))

    def addError(self, test, err):
        super().addError(test, err)
        self.cases.append((test.id(), "failed"))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.cases.append((test.id(), "skipped"))
        print(f"{test.id()}: skipped: {reason}", flush=True)


def write_report(cases: list[tuple[str, str]], path: pathlib.Path) -> None:
    suites = ET.Element("testsuites")
    suite = ET.SubElement(suites, "testsuite", name="end_to_end")
    for name, end in cases:
        case = ET.SubElement(suite, "testcase", name=name, status="run",
                             result="skipped" if end == "skipped" else "completed")
        if end != "passed":
            ET.SubElement(case, "skipped" if end == "skipped" else "failure")
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(suites).write(path)


def missing_import(module: str) -> str:
    """What the tests need and the environment has not; empty in an environment of ours, which has everything."""
    if pathlib.Path(sys.prefix).is_relative_to(ROOT / ".venv"):
        return ""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as missing:
        return "" if "spillway" in str(missing) else str(missing.name)
    return ""


def main() -> int:
    file, report = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    sys.path.insert(0, str(file.parent))
    if missing := missing_import(file.stem):
        print(f"{file.stem}: skipped: {sys.prefix} has no {missing}; pip install -r tests/python/requirements.txt")
        write_report([(file.stem, "skipped")], report)
        return 0
    tests = unittest.defaultTestLoader.loadTestsFromName(file.stem)
    result = unittest.TextTestRunner(resultclass=Recording, verbosity=1).run(tests)
    write_report(result.cases, report)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
