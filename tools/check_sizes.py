#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Checks file and function lengths against the budgets, and prints the longest."""

import functools
import re
import statistics
import subprocess
import sys
from typing import Any, NamedTuple

import sources

FILE_MAX, FILE_P90, FUNCTION_MAX, CASE_P90 = 800, 400, 70, 40
FILE_MEDIAN, FUNCTION_MEDIAN, FUNCTION_P90 = 150, 6, 25  # aims: printed, not enforced


class Function(NamedTuple):
    where: str
    name: str
    lines: int
    is_case: bool


@functools.cache
def lizard() -> Any:
    """The library that finds functions, from the environment that set-up makes for tools/."""
    done = subprocess.run([sources.ROOT / "tools/setup.sh", "tools"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"lizard is missing: {done.stderr.strip()}")
    sys.path.append(done.stdout.strip())
    import lizard as found  # pylint: disable=import-outside-toplevel
    return found


def functions(path: str, text: str) -> list[Function]:
    """Outermost functions; the body of a lambda is its function's."""
    name = path if path.endswith((".h", ".cc")) else f"{path}.cc"  # CUDA is C++ to it
    found = []
    for one in lizard().analyze_file.analyze_source_code(name, text).function_list:
        is_case = re.match(r"(TYPED_)?TEST(_[FP])?\b", one.name) is not None
        shown = one.long_name.partition("(")[2].strip(" )") if is_case else one.name
        found.append(Function(f"{path}:{one.start_line}", shown, one.end_line - one.start_line + 1, is_case))
    return found


def p90(numbers: list[int]) -> int:
    return sorted(numbers)[int(0.9 * (len(numbers) - 1))] if numbers else 0


def faults(files: dict[str, str]) -> tuple[list[str], list[str]]:
    """(faults, lines of the summary) of a tree {path: text}."""
    lengths = {path: text.count("\n") for path, text in files.items()}
    every = [f for path, text in files.items() for f in functions(path, text)]
    cases = [f for f in every if f.is_case]
    plain = [f for f in every if not f.is_case]
    found = [f"{p}: {n} lines, the budget is {FILE_MAX}" for p, n in lengths.items() if n > FILE_MAX]
    found += [f"{f.where}: {f.name} has {f.lines} lines, the budget is {FUNCTION_MAX}"
              for f in every if f.lines > FUNCTION_MAX]
    shipped = [n for p, n in lengths.items() if p.startswith(("src/", "include/", "cli/"))]
    if p90(shipped) > FILE_P90:
        found.append(f"files: the 90th percentile is {p90(shipped)} lines, the budget is {FILE_P90}")
    if p90([f.lines for f in cases]) > CASE_P90:
        found.append(f"test cases: the 90th percentile is above {CASE_P90} lines")
    summary = []
    for title, numbers in (("files", list(lengths.values())), ("functions", [f.lines for f in plain]),
                           ("test cases", [f.lines for f in cases])):
        if numbers:
            summary.append(f"{title}: {len(numbers)}, lines median {statistics.median(numbers):g}, "
                           f"p90 {p90(numbers)}, longest {max(numbers)}")
    summary += [f"  {lengths[p]:4} {p}" for p in sorted(lengths, key=lambda p: -lengths[p])[:3]]
    summary += [f"  {f.lines:4} {f.where} {f.name}" for f in sorted(plain, key=lambda f: -f.lines)[:3]]
    return found, summary


def check() -> list[str]:
    texts = {p: (sources.ROOT / p).read_text(errors="replace") for p in sources.cpp_files()}
    found, summary = faults(texts)
    print("\n".join(summary))
    return found


if __name__ == "__main__":
    FOUND = check()
    print("\n".join(FOUND) if FOUND else "sizes: no fault")
    sys.exit(1 if FOUND else 0)
