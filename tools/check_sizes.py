#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Checks file and function lengths against the budgets, and prints the longest."""

import re
import statistics
import sys

import sources

FILE_MAX, FILE_P90, FUNCTION_MAX, CASE_P90 = 800, 400, 70, 40
FILE_MEDIAN, FUNCTION_MEDIAN, FUNCTION_P90 = 150, 6, 25  # aims: printed, not enforced

_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
_BREAK = re.compile(r"[{};]")
_NAME = re.compile(r"([~\w:]+|operator\W+)\s*\(")


class Function:
    def __init__(self, path: str, line: int, lines: int, head: str) -> None:
        self.where, self.lines = f"{path}:{line}", lines
        self.is_case = re.match(r"(TYPED_)?TEST(_[FP])?\b", head) is not None
        named = re.search(r"\((.*)\)", head) if self.is_case else _NAME.search(head)
        self.name = named.group(1) if named else head[:40]


def functions(path: str, text: str) -> list[Function]:
    """Outermost braces that follow a parameter list, outside of any other function."""
    code = re.sub(r"^\s*#.*$", "", sources.code_only(text), flags=re.MULTILINE)
    code = re.sub(r"\b(public|private|protected):", lambda m: ";" * len(m.group()), code)
    found: list[Function] = []
    stack: list[tuple[str, int, str]] = []  # (kind, offset of the head, head)
    start, carried = 0, ""
    for mark in _BREAK.finditer(code):
        at, char = mark.start(), mark.group()
        head = code[start:at].strip()
        offset = at - len(code[start:at].lstrip()) if head else at
        inside = any(kind == "function" for kind, _, _ in stack)
        if char == "{":
            if carried:  # a constructor's initializers go on, or its body follows them
                stack.append(("function", carried_offset, carried))
            elif not inside and "(" in head and not head.startswith("enum"):
                stack.append(("function", offset, head))
            else:
                stack.append(("scope" if _SCOPE.search(head) else "other", offset, head))
            carried = ""
        elif char == "}" and stack:
            kind, head_at, text_of_head = stack.pop()
            if kind == "function":
                if re.match(r"\s*[,{]", code[at + 1:at + 200]):
                    carried, carried_offset = text_of_head, head_at
                else:
                    line = code.count("\n", 0, head_at) + 1
                    found.append(Function(path, line, code.count("\n", head_at, at) + 1, text_of_head))
        else:
            carried = ""
        start = at + 1
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
