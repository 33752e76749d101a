#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/cli.md from what `spillway --help` prints."""

import argparse
import pathlib
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
    command = [program, *subcommand, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sources.stop(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


def page(program: str) -> str:
    parts = [_HEAD]
    for subcommand in ((), ("train",), ("trace",), ("plan",), ("simulate",), ("compare",), ("fit",), ("probe",), ("replay",), ("codecs",)):
        title = " ".join(("spillway", *subcommand))
        parts.append(f"## {title}\n\n```text\n{_help(program, *subcommand)}\n```\n")
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="?", type=pathlib.Path, default=sources.ROOT / "build/bin/spillway",
                        help="default: build/bin/spillway, which `make build` leaves")
    program = sources.built(parser.parse_args().program, "make build")
    PAGE.write_text(page(str(program)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
