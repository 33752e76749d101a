#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""House rules that no other tool knows, one entry a rule, each with its reason."""

import re
import sys
from typing import NamedTuple

import sources

_TESTS = r"tests/|bench/|examples/|.*_test\.cc$"


class Ban(NamedTuple):
    """What must not stand in code, but in files whose path matches `allowed`."""
    pattern: str
    allowed: str
    reason: str


BANS = [
    Ban(r"\b(secure_)?getenv\s*\(", rf"cli/|{_TESTS}",
        "environment variables are read in cli/ only; configuration is a struct passed in"),
    Ban(r"\bthrow\b", rf"src/torch_driver/|src/train/|cli/|include/spillway/.*exception|{_TESTS}",
        "the core returns Result; exceptions live at the torch and program boundary"),
    Ban(r"\bio_uring_submit\w*\s*\(", r"src/tier/uring\.cc",
        "its result is checked in one wrapper"),
    Ban(r"\bp(read|write)(v2?|64)?\s*\(", rf"src/tier/|src/train/files\.cc|{_TESTS}",
        "a value's bytes reach files through a tier"),
    Ban(r"#\s*include\s*<torch/(torch|extension)\.h>", _TESTS,
        "the widest headers cost 15 s a file; name what is used"),
    Ban(r"\busing\s+namespace\s+std\b", r"$^", "names say where they come from"),
]

_SPDX = ("SPDX-FileCopyrightText: The Spillway authors", "SPDX-License-Identifier: Apache-2.0")
_WITH_HEAD = re.compile(r"(\.(h|cc|cu|cuh|py|sh|cmake)|(^|/)(CMakeLists\.txt|Makefile)|^tools/hooks/.*|^\.ci/run)$")
_TODO = re.compile(r"\bTODO\b(?!\(#\d+\))")


def ban_faults(path: str, text: str) -> list[str]:
    code = sources.code_only(text)
    code = re.sub(r'^(\s*#\s*include\s*)""', r"\1", code, flags=re.MULTILINE)
    found = []
    for ban in BANS:
        if not re.match(ban.allowed, path):
            for match in re.finditer(ban.pattern, code):
                line = code.count("\n", 0, match.start()) + 1
                found.append(f"{path}:{line}: `{match.group(0).strip()}`: {ban.reason}")
    return found


def text_faults(path: str, text: str) -> list[str]:
    """Rules for the text of a file rather than for its code."""
    found = []
    head = text.splitlines()[:4]
    if _WITH_HEAD.search(path) and not all(any(s in line for line in head) for s in _SPDX):
        found.append(f"{path}:1: the two SPDX lines are missing")
    once_a_target = path.endswith("-inl.h")  # Highway includes it anew for each kind of vector
    if path.endswith((".h", ".cuh")) and not once_a_target \
            and not re.search(r"^#pragma once$", text, re.MULTILINE):
        found.append(f"{path}:1: #pragma once is missing")
    for number, line in enumerate(text.splitlines(), 1):
        if _WITH_HEAD.search(path) and not line.isascii():
            found.append(f"{path}:{number}: sources are ASCII")
        if _WITH_HEAD.search(path) and not path.startswith("tools/check_lints") and _TODO.search(line):
            found.append(f"{path}:{number}: a to-do names its issue, as in (#12)")
    return found


def check() -> list[str]:
    found = []
    for path in sources.all_files():
        if _WITH_HEAD.search(path):
            text = (sources.ROOT / path).read_text(errors="replace")
            found += text_faults(path, text)
            if path.endswith((".h", ".cc", ".cu", ".cuh")):
                found += ban_faults(path, text)
    return found


if __name__ == "__main__":
    FOUND = check()
    print("\n".join(FOUND) if FOUND else "lints: no fault")
    sys.exit(1 if FOUND else 0)
