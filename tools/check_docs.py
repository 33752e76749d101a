#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation into build/site. A broken link or anchor is an error, as is anything that a page
would load from the network."""

import os
import re
import subprocess
import sys

import sources

SITE = sources.ROOT / "build/site"
_REMOTE = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=\"((?:https?:)?//[^\"]+)\"")


def remote_assets(page: str, text: str) -> list[str]:
    return [f"{page}: {address} would be loaded from the network" for address in _REMOTE.findall(text)]


def check() -> list[str]:
    setup = subprocess.run(["tools/setup.sh", "docs"], cwd=sources.ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if setup.returncode:
        return ["the packages that build the documentation could not be installed"]
    done = subprocess.run([setup.stdout.strip(), "-m", "mkdocs", "build", "--quiet"], cwd=sources.ROOT, text=True,
                          capture_output=True, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    if done.returncode:
        return (done.stdout + done.stderr).splitlines()
    return [fault for page in sorted(SITE.rglob("*.html"))
            for fault in remote_assets(str(page.relative_to(SITE)), page.read_text())]


if __name__ == "__main__":
    FOUND = check()
    print("\n".join(FOUND) if FOUND else "open build/site/index.html")
    sys.exit(1 if FOUND else 0)
