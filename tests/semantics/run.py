#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`make semantics`: every case under every system; writes docs/semantics.md, or with --check compares."""

import argparse
import os
import pathlib
import sys
import tempfile
import time

import suite
import systems
import table

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "semantics.md"
CHECKED = ("plain", "spillway", "spillway_made_again", "spillway_late")


def scratch() -> pathlib.Path:
    """A folder on a disk: that of the build."""
    folder = pathlib.Path(os.environ.get("SPILLWAY_BINARY_DIR", str(ROOT / "build"))) / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def columns(names: list[str],
            chosen: str = "") -> tuple[list[suite.Case], dict[str, suite.Column], dict[str, str]]:
    todo = [each for each in suite.cases() if chosen in each.name]
    suite.prepare()
    found: dict[str, suite.Column] = {}
    versions: dict[str, str] = {}
    for name in names:
        start = time.perf_counter()
        log = scratch() / f"semantics-{name}.log"
        log.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            found[name], versions[name] = suite.column(systems.ALL[name], todo, folder, log)
        counts = table.counted(found[name])
        words = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        print(f"{time.perf_counter() - start:5.1f} s  {name}: {words}", flush=True)
    return todo, found, versions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="plain's and Spillway's columns against the page")
    parser.add_argument("--systems", default="", help="these only, by comma; prints, writes nothing")
    parser.add_argument("--cases", default="", help="those whose name has this in it; prints, writes nothing")
    options = parser.parse_args()
    names = options.systems.split(",") if options.systems else list(systems.ALL)
    if options.check:
        names = list(CHECKED)
    todo, found, versions = columns(names, options.cases)
    if options.check:
        faults = table.differences(PAGE.read_text(), todo, found)
        print("\n".join(faults) or "docs/semantics.md is what a fresh run gives")
        return 1 if faults else 0
    if options.systems or options.cases:
        print("\n".join(table.failures(todo, found)))
        return 0
    absent = [name for name, version in versions.items() if version == "absent"]
    page = ROOT / "build" / PAGE.name if absent else PAGE
    page.write_text(table.page(todo, found, versions))
    print(f"wrote {page.relative_to(ROOT)}: {len(todo)} cases, {len(names)} systems")
    if absent:
        print(f"{PAGE.relative_to(ROOT)} is as it was, because these systems are not installed here: {', '.join(absent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
