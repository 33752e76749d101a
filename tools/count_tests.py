#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Runs ctest in a build folder and counts the cases: count_tests.py FOLDER [ctest option...]"""

import os
import pathlib
import shutil
import subprocess
import sys

import counts
import sources


def main() -> int:
    if len(sys.argv) < 2 or not (pathlib.Path(sys.argv[1]) / "CTestTestfile.cmake").exists():
        sources.stop("usage: tools/count_tests.py FOLDER [ctest option...], FOLDER as tools/build.sh makes it: build/core-debug")
    folder = pathlib.Path(sys.argv[1]).resolve()
    reports = folder / "results"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    junit = reports / "ctest.junit"
    command = ["ctest", "--test-dir", str(folder), "--output-on-failure", "--no-tests=ignore",
               "-j", str(os.cpu_count() or 1), "--output-junit", str(junit), *sys.argv[2:]]
    status = subprocess.run(command, check=False).returncode
    found = counts.of_ctest(junit, reports) if junit.exists() else counts.Counts(failed=1)
    counts.hand_over(found)
    print(f"{found}, {found.skipped} skipped", flush=True)
    return 1 if status or found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
