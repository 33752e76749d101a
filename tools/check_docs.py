#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation into build/site. A broken link or anchor is an error, as are anything that a page would
load from the network and a quoted message that the sources do not have."""

import os
import re
import subprocess
import sys

import sources

_PAGES = ("docs/troubleshooting.md", "docs/how_to/see_where_memory_went.md")  # they quote messages
SITE = sources.ROOT / "build/site"
_REMOTE = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=\"((?:https?:)?//[^\"]+)\"")
_LITERAL = re.compile(r'[frR]*"((?:\\.|[^"\\\n])*)"')
_MESSAGE = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
_END_OF_TABLE = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def literals(source: str) -> str:
    """The string literals of a C++ or Python source, one a line; those that only blanks part are one."""
    text, end = "", 0
    for found in _LITERAL.finditer(source):
        text += ("" if source[end:found.start()].isspace() else "\n") + found.group(1).replace('\\"', '"')
        end = found.end()
    return text


def unknown_messages(page: str, known: str) -> list[str]:
    """Parts of the messages quoted on `page` that are not in `known`. Three dots stand for what varies."""
    lines = [line for block in _MESSAGE.findall(page) for line in block.splitlines()] + _END_OF_TABLE.findall(page)
    parts = (part.strip() for line in lines for part in line.split("\u2026"))
    return [part for part in parts if len(part) > 3 and part not in known]


def check_messages() -> list[str]:
    files = [path for path in sources.all_files()
             if path.startswith(("src/", "cli/", "python/", "tools/find_torch.py")) and path.endswith((".cc", ".h", ".py")) and "_test." not in path]
    known = "\n".join(literals((sources.ROOT / path).read_text()) for path in files)
    return [f"{page}: no source has the message '{part}'" for page in _PAGES
            for part in unknown_messages((sources.ROOT / page).read_text(), known)]


def remote_assets(page: str, text: str) -> list[str]:
    return [f"{page}: {address} would be loaded from the network" for address in _REMOTE.findall(text)]


def build() -> list[str]:
    setup = subprocess.run(["tools/setup.sh", "docs"], cwd=sources.ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if setup.returncode:
        return ["the packages that build the documentation could not be installed"]
    done = subprocess.run([setup.stdout.strip(), "-m", "mkdocs", "build", "--quiet"], cwd=sources.ROOT, text=True,
                          capture_output=True, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    if done.returncode:
        return (done.stdout + done.stderr).splitlines()
    return [fault for page in sorted(SITE.rglob("*.html"))
            for fault in remote_assets(str(page.relative_to(SITE)), page.read_text())]


def check() -> list[str]:
    return check_messages() + build()


if __name__ == "__main__":
    FOUND = check()
    print("\n".join(FOUND) if FOUND else "open build/site/index.html")
    sys.exit(1 if FOUND else 0)
