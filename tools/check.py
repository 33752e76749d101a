#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`make check`: every check of the tree, one line each. --fast leaves out what builds or runs tests."""

import argparse
import subprocess
import sys
import unittest
from collections.abc import Callable

import check_docs
import check_layers
import check_lints
import check_locks
import check_sizes
import counts
import sources

FORMATTER = "clang-format-14"


def check_format(fix: bool = False) -> list[str]:
    files = sources.cpp_files()
    if not files:
        return []
    command = [FORMATTER, "-i"] if fix else [FORMATTER, "--dry-run", "-Werror", "--ferror-limit=1"]
    try:
        done = subprocess.run([*command, *files], cwd=sources.ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return [f"{FORMATTER} is missing; `make setup` installs it"]
    faults = [line for line in done.stderr.splitlines() if "error:" in line]
    return faults + (["`make fmt` repairs the format"] if faults else [])


def check_headers() -> list[str]:
    """Each header of the core compiles alone."""
    command = ["tools/build.sh", "core-debug", "all_verify_interface_header_sets"]
    done = subprocess.run(command, cwd=sources.ROOT, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()[-40:]


def check_types() -> list[str]:
    """The Python package as pyproject.toml has mypy read it; torch's own types are not looked up."""
    try:
        done = subprocess.run(["mypy"], cwd=sources.ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ["mypy is missing; `make setup` installs it"]
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def check_tools() -> list[str]:
    """The self-tests of tools/."""
    suite = unittest.defaultTestLoader.discover(str(sources.ROOT / "tools"), pattern="*_test.py")
    result = unittest.TestResult()
    suite.run(result)
    for test, why in result.skipped:
        print(f"{test}: skipped: {why}")
    return [f"{test}: {text}" for test, text in result.failures + result.errors]


FAST: dict[str, Callable[[], list[str]]] = {
    "format": check_format, "layers": check_layers.check, "sizes": check_sizes.check, "lints": check_lints.check,
    "types": check_types}
SLOW: dict[str, Callable[[], list[str]]] = {
    "locks": check_locks.check, "docs": check_docs.check, "tools": check_tools, "headers": check_headers}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="format, layers, sizes, lints and types only")
    parser.add_argument("--fix", action="store_true", help="format the tree in place, check nothing")
    options = parser.parse_args()
    if options.fix:
        faults = check_format(fix=True)
        print("\n".join(faults), end="\n" if faults else "")
        return 1 if faults else 0
    checks = FAST if options.fast else FAST | SLOW
    failed = 0
    for name, check in checks.items():
        faults = check()
        failed += bool(faults)
        print("\n".join(faults), end="\n" if faults else "")
        print(f"check {name}: {'FAILED' if faults else 'ok'}", flush=True)
    counts.hand_over(counts.Counts(passed=len(checks) - failed, failed=failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
