#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`make test` and, with --all, `make test-all`: every part in turn, whatever the others said, then the seconds and
counts of each."""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import IO, NamedTuple

import counts
import sources

OLDEST_TORCH = "2.11.0"
NO_OTHER_TORCH = f"""torch {OLDEST_TORCH}: skipped, since your own torch is used and no torch is downloaded then
downloaded where they are missing: Debian's packages (tools/packages.txt); what the checks use
(tools/requirements.txt, tools/site/requirements.txt), into .venv; what the tests of `pip install .` build with"""


class Part(NamedTuple):
    name: str
    targets: list[str]


class Outcome(NamedTuple):
    name: str
    seconds: float
    ok: bool
    found: counts.Counts


PACKAGES = Part("packages", ["packages"])
CHECK = Part("check", ["check"])  # needs no torch
TORCH = [Part("torch", ["test-torch"]),
         Part("asan + ubsan", ["test-asan"]),
         Part("README", ["check-readme"])]
ALL = [Part("core, under tsan", ["tsan"]),
       Part("policies' fuzz", ["fuzz-policies"]),
       Part("torch (all)", ["test-torch", "ALL=1"]),
       Part("asan + ubsan (all)", ["asan"]),
       Part("README", ["check-readme"]),
       Part("all operators", ["test-operators"])]


def has_torch_of_the_user() -> bool:
    """Whether set-up takes the torch of SPILLWAY_PYTHON or of an active virtual environment."""
    done = subprocess.run(["tools/setup.sh", "yours"], cwd=sources.ROOT, capture_output=True, text=True, check=False)
    print(done.stderr, end="", file=sys.stderr, flush=True)
    if done.returncode:
        sys.exit(done.returncode)
    return bool(done.stdout.strip())


def of_another_torch(wanted: str | None) -> Part | None:
    if wanted:
        return Part(f"torch {wanted}", ["test-torch", f"TORCH={wanted}"])
    if has_torch_of_the_user():
        print(NO_OTHER_TORCH, flush=True)
        return None
    return Part(f"torch {OLDEST_TORCH}", ["test-torch", f"TORCH={OLDEST_TORCH}"])


def run(part: Part, scratch: pathlib.Path, output: IO[str] | None = None) -> Outcome:
    """Shows what it says as it says it, or leaves that in `output`."""
    print(f"\n==== {part.name}", file=output, flush=True)
    report = scratch / f"{part.name}.json"
    begin = time.monotonic()
    # TORCH= first: the version that this call was given is for its own part only.
    status = subprocess.run(["make", "TORCH=", *part.targets], cwd=sources.ROOT, check=False, stdout=output,
                            stderr=subprocess.STDOUT if output else None, env=counts.environment(report)).returncode
    found = counts.take(report) or counts.Counts()
    if status and not found.failed:
        found.failed += 1
    return Outcome(part.name, time.monotonic() - begin, status == 0, found)


def run_with_downloads(first: Part, downloads: list[Part], scratch: pathlib.Path) -> list[Outcome]:
    """`first`, and beside it what waits for the network; that is shown at the end."""
    with contextlib.ExitStack() as files, concurrent.futures.ThreadPoolExecutor() as pool:
        outputs = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in downloads]
        under_way = [pool.submit(run, part, scratch, output) for part, output in zip(downloads, outputs, strict=True)]
        outcomes = [run(first, scratch)]
        outcomes += [download.result() for download in under_way]
        for output in outputs:
            output.seek(0)
            print(output.read(), flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", help="run the torch tests with this version, too")
    parser.add_argument("--all", action="store_true", help="everything: sanitizers on all, another torch, long tests")
    options = parser.parse_args()
    for inherited in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"):
        os.environ.pop(inherited, None)
    another = of_another_torch(options.torch) if options.torch or options.all else None
    parts = [*(ALL if options.all else TORCH), *([another] if another else [])]
    downloads = [Part("set-up", ["setup"])]
    if another:
        downloads.append(Part("set-up of " + another.name, ["setup", another.targets[-1]]))
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        outcomes = [run(PACKAGES, scratch), *run_with_downloads(CHECK, downloads, scratch)]
        outcomes += [run(part, scratch) for part in parts]
    return print_table(outcomes, time.monotonic() - begin)


def print_table(outcomes: list[Outcome], seconds: float) -> int:
    """The table of all parts; the exit code."""
    total = sum((outcome.found for outcome in outcomes), counts.Counts())
    width = max(len(outcome.name) for outcome in outcomes)
    print(f"\n{'part':<{width}} {'seconds':>8} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for name, took, ok, found in [*outcomes, Outcome("all", seconds, True, total)]:
        print(f"{name:<{width}} {took:8.0f} {found.passed:7} {found.failed:7} {found.skipped:8}"
              f"{'' if ok else '  FAILED'}")
    print(total, flush=True)
    return 1 if total.failed or not all(o.ok for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
