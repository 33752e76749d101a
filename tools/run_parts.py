#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`make test`: every part in turn, whatever the others said, then the seconds and counts of each. What `make
test-fast` runs is in three of them."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import counts
import sources

OLDEST_TORCH = "2.11.0"


class Part(NamedTuple):
    name: str
    targets: list[str]


class Outcome(NamedTuple):
    name: str
    seconds: float
    ok: bool
    found: counts.Counts


def parts(torch: str | None) -> list[Part]:
    every = [Part("set-up", ["setup"]),
             Part("check", ["check"]),
             Part("core, under tsan", ["tsan"]),
             Part("torch", ["test-torch"]),
             Part("asan + ubsan (all)", ["asan"]),
             Part("README", ["check-readme"])]
    if torch:
        every.append(Part(f"torch {torch}", ["test-torch", f"TORCH={torch}"]))
    elif os.environ.get("SPILLWAY_PYTHON") or os.environ.get("VIRTUAL_ENV"):
        print(f"torch {OLDEST_TORCH} (smoke): skipped, since the torch of a Python of yours is used and "
              "nothing is to be downloaded")
    else:
        every.append(Part(f"torch {OLDEST_TORCH} (smoke)", ["test-smoke", f"TORCH={OLDEST_TORCH}"]))
    return every


def run(part: Part, scratch: pathlib.Path) -> Outcome:
    print(f"\n==== {part.name}", flush=True)
    report = scratch / "counts.json"
    report.unlink(missing_ok=True)
    begin = time.monotonic()
    # TORCH= first: the version that this call was given is for its own part only.
    status = subprocess.run(["make", "TORCH=", *part.targets], cwd=sources.ROOT, check=False,
                            env=counts.environment(report)).returncode
    found = counts.take(report) or counts.Counts()
    if status and not found.failed:
        found.failed += 1
    return Outcome(part.name, time.monotonic() - begin, status == 0, found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", help="run the torch tests with this version, too")
    options = parser.parse_args()
    for inherited in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"):
        os.environ.pop(inherited, None)
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = [run(part, pathlib.Path(scratch)) for part in parts(options.torch)]
    total = sum((outcome.found for outcome in outcomes), counts.Counts())
    print(f"\n{'part':<24} {'seconds':>8} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for name, seconds, ok, found in outcomes:
        print(f"{name:<24} {seconds:8.0f} {found.passed:7} {found.failed:7} {found.skipped:8}"
              f"{'' if ok else '  FAILED'}")
    print(f"{'all':<24} {sum(o.seconds for o in outcomes):8.0f} {total.passed:7} {total.failed:7} "
          f"{total.skipped:8}\n{total}", flush=True)
    return 1 if total.failed or not all(o.ok for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
