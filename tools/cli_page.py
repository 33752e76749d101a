#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/cli.md from what `spillway --help` prints: tools/cli_page.py [PROGRAM]."""

import subprocess
import sys

import sources

PAGE = sources.ROOT / "docs/cli.md"
_HEAD = """# Command line

The program is `spillway`, or `python -m spillway`. From a checkout, `make build` leaves it in `build/bin/spillway`.
Each flag's default is in brackets. [`spillway train`](train.md) explains the output and the exit codes.

This page is what `--help` prints; `tools/cli_page.py` writes it.
"""


def _help(program: str, *subcommand: str) -> str:
    done = subprocess.run([program, *subcommand, "--help"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def page(program: str) -> str:
    parts = [_HEAD]
    for subcommand in ((), ("train",), ("replay",), ("codecs",)):
        title = " ".join(("spillway", *subcommand))
        parts.append(f"## {title}\n\n```text\n{_help(program, *subcommand)}\n```\n")
    return "\n".join(parts)


def main() -> int:
    program = sys.argv[1] if len(sys.argv) > 1 else str(sources.ROOT / "build/bin/spillway")
    PAGE.write_text(page(program))
    return 0


if __name__ == "__main__":
    sys.exit(main())
