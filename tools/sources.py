# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The tree's own files, what was built of them, and C++ text without comments and literals. Shared by tools/."""

import os
import pathlib
import re
import subprocess
import sys
from typing import NoReturn

ROOT = pathlib.Path(__file__).resolve().parent.parent
_NOT_OURS = {"build", ".venv", ".git", "__pycache__"}


def all_files(root: pathlib.Path = ROOT) -> list[str]:
    """Paths relative to `root`: what git knows or would take; without git, all but build folders."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        return sorted(p for p in set(listing.stdout.splitlines()) if (root / p).is_file())
    found = (p.relative_to(root) for p in root.rglob("*") if p.is_file())
    return sorted(str(p) for p in found if not _NOT_OURS.intersection(p.parts))


def cpp_files(root: pathlib.Path = ROOT) -> list[str]:
    return [p for p in all_files(root) if p.endswith((".h", ".cc", ".cu", ".cuh"))]


def stop(why: str) -> NoReturn:
    """Ends the program with one line and exit code 2."""
    print(why, file=sys.stderr, flush=True)
    sys.exit(2)


def built(program: pathlib.Path, command: str) -> pathlib.Path:
    """`program`, or one line that names what builds it, and exit code 2."""
    if not (program.is_file() and os.access(program, os.X_OK)):
        stop(f"{program} is not built; `{command}` builds it")
    return program.resolve()


_COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def code_only(text: str) -> str:
    """`text` with comments blank and literals empty; every line keeps its number."""
    def blank(match: re.Match[str]) -> str:
        token = match.group(0)
        kept = "\n" * token.count("\n")
        return kept if token.startswith(("//", "/*")) else '""' + kept
    return _COMMENT_OR_LITERAL.sub(blank, text)
