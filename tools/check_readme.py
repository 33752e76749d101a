#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Checks what README.md and the pages of docs/ say to type: `make` targets exist, `build/bin/spillway` commands run.

In blocks fenced as sh, a line that starts with build/ or g++ is run from the root of the tree and
must exit 0; `# not run` at its end leaves it out, and a backslash continues it. Links to files
of the tree must lead somewhere, in every page of docs/ as well. What README mentions is checked by
tests/end_to_end/readme_test.py, which runs here, too.
"""

import pathlib
import re
import subprocess
import sys
import unittest

import counts
import sources

_BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
SECONDS_A_COMMAND = 900


def commands(text: str) -> list[str]:
    joined = "\n".join(_BLOCK.findall(text)).replace("\\\n", " ")
    lines = (line.strip().removeprefix("$ ") for line in joined.splitlines())
    return [line for line in lines if line.startswith(("make", "build/", "g++"))]


def targets(makefile: str) -> set[str]:
    phony = re.findall(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)
    return {name for line in phony for name in line.split()}


def unknown_targets(line: str, known: set[str]) -> list[str]:
    words = line.split("#", 1)[0].split(";")[0].split("&&")[0].split()[1:]
    return [word for word in words if "=" not in word and not word.startswith("-") and word not in known]


def broken_links(page: str, text: str, root: pathlib.Path) -> list[str]:
    folder = (root / page).parent
    return [f"{page}: link to {link} leads nowhere" for link in _LINK.findall(text)
            if not (folder / link).exists()]


def run(line: str) -> str | None:
    try:
        done = subprocess.run(line, shell=True, cwd=sources.ROOT, capture_output=True, text=True,
                              timeout=SECONDS_A_COMMAND, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS_A_COMMAND} s: {line}"
    if done.returncode == 0:
        return None
    return f"exit code {done.returncode}: {line}\n{(done.stdout + done.stderr)[-2000:]}"


def mentions() -> tuple[counts.Counts, list[str]]:
    """The cases of readme_test.py."""
    folder = sources.ROOT / "tests/end_to_end"
    suite = unittest.TestLoader().discover(str(folder), pattern="readme_test.py", top_level_dir=str(folder))
    result = unittest.TestResult()
    suite.run(result)
    bad = [f"{test}: {text}" for test, text in result.failures + result.errors]
    return counts.Counts(passed=result.testsRun - len(bad), failed=len(bad)), bad


def main() -> int:
    found, faults = mentions()
    known = targets((sources.ROOT / "Makefile").read_text())
    pages = [page for page in sources.all_files() if page.endswith(".md")]
    for page in pages:
        text = (sources.ROOT / page).read_text()
        here = broken_links(page, text, sources.ROOT)
        faults += here
        found += counts.Counts(failed=1) if here else counts.Counts(passed=1)
        for line in commands(text) if page == "README.md" or page.startswith("docs/") else []:
            if line.startswith("make"):
                here = [f"{page}: make has no target {name}" for name in unknown_targets(line, known)]
            elif line.endswith("# not run"):
                continue
            else:
                print(f"  {line}", flush=True)
                here = [f"{page}: {fault}"] if (fault := run(line)) else []
            faults += here
            found += counts.Counts(failed=1) if here else counts.Counts(passed=1)
    counts.hand_over(found)
    print("\n".join([*faults, str(found)]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
