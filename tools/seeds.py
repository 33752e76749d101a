#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the runtime's suite on the late accelerator under many seeds, a process a core and one more, since
cases sleep now and then; whole models and failing devices under a tenth of them. Failing seeds are printed
with the command that runs them again; the last line is JSON."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import NamedTuple

import sources

# Without what is the same under every seed: a disk, refused options, a fork.
SUITE = "Semantics.*:Faults.*:Streams.*:Staged.*:LateBackward.*:Coded.*-*_on_the_disk_*"
# Whole models, and devices that fail: half of the time for a seed, so these run under every tenth.
SELDOM_SUITE = ("Devices.*:FailedDevices.*:late/Models.*"
                "-*_is_not_there_*:*_beyond_the_machine_*:*_forked_*")
SELDOM = 10
SEEDS_A_PROCESS = 10
SECONDS_A_SEED = 60
LEAST_SECONDS = 1800
REPORT_EVERY_S = 60
# What gtest prints for each repetition, whether it passes or not.
EACH_TIME = re.compile(r"$|Repeating all tests|Note: |\[=+\]|\[  PASSED  \]")
LONGEST_TEXT = 3000


class Chunk(NamedTuple):
    suite: str
    first: int
    count: int


def chunks_of(suite: str, first: int, seeds: int) -> list[Chunk]:
    return [Chunk(suite, at, min(SEEDS_A_PROCESS, first + seeds - at))
            for at in range(first, first + seeds, SEEDS_A_PROCESS)]


def run(program: pathlib.Path, chunk: Chunk) -> tuple[int, str]:
    command = [str(program), f"--gtest_random_seed={chunk.first}", f"--gtest_repeat={chunk.count}",
               "--gtest_brief=1", f"--gtest_filter={chunk.suite}"]
    try:
        done = subprocess.run(command, capture_output=True, check=False,
                              timeout=max(LEAST_SECONDS, SECONDS_A_SEED * chunk.count), env={**os.environ, "OMP_NUM_THREADS": "1"})
    except subprocess.TimeoutExpired as late:
        return 1, text_of(late.stdout, late.stderr, "hung")
    signal = f"ended by signal {-done.returncode}" if done.returncode < 0 else ""
    return done.returncode, text_of(done.stdout, done.stderr, signal)


def text_of(output: bytes | None, errors: bytes | None, end: str) -> str:
    """What gtest told of failures, apart from the program's own stderr, which may be long; then `end`."""
    output_text, error_text = ((text or b"").decode(errors="replace") for text in (output, errors))
    failures = "\n".join(line for line in output_text.splitlines() if not EACH_TIME.match(line))
    return f"{failures[:LONGEST_TEXT]}\n{error_text[-LONGEST_TEXT:]}\n{end}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/torch", help="where the suite was built")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--suite", default=SUITE, help="a gtest filter")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1)
    options = parser.parse_args()
    program = sources.built(sources.ROOT / options.build / "tests" / "spillway_late_torch_test", "make test-seeds")
    work = []
    if options.suite == SUITE:
        work += chunks_of(SELDOM_SUITE, options.first, (options.seeds + SELDOM - 1) // SELDOM)
    work += chunks_of(options.suite, options.first, options.seeds)
    failed: set[int] = set()
    done, reported = 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(run, program, chunk): chunk for chunk in work}
        for ended in concurrent.futures.as_completed(running):
            status, text = ended.result()
            chunk = running[ended]
            done += 1
            if status:
                seeds = sorted({int(seed) for seed in re.findall(r"late: seed (\d+)", text)}) or [chunk.first]
                failed.update(seeds)
                print(f"\nfailed: seeds {seeds}\n{text}\nagain: {program} "
                      f"--gtest_random_seed={seeds[0]} --gtest_filter='{chunk.suite}'", flush=True)
            elif sys.stdout.isatty() or time.monotonic() - reported > REPORT_EVERY_S:
                reported = time.monotonic()
                print(f"{100 * done // len(work)} % of {options.seeds} seeds, {len(failed)} failed", flush=True)
    print(json.dumps({"seeds": options.seeds, "first": options.first, "failed": sorted(failed)}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
