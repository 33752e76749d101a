#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the runtime's suite on the late accelerator under many seeds, a process a core and one more, since
cases sleep now and then. Failing seeds are printed with the command that runs them again; the last line is
JSON."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

import sources

# Without what is the same under every seed: a disk, refused options, a fork.
SUITE = ("Semantics.*:Faults.*:Streams.*:Staged.*:Devices.*:FailedDevices.*:late/Models.*"
         "-*_on_the_disk_*:*_is_not_there_*:*_beyond_the_machine_*:*_forked_*")
CHUNK = 25  # seeds a process
SECONDS_A_SEED = 60


def run(program: pathlib.Path, first: int, count: int, suite: str) -> tuple[int, str]:
    command = [str(program), f"--gtest_random_seed={first}", f"--gtest_repeat={count}", "--gtest_brief=1",
               f"--gtest_filter={suite}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace",
                              timeout=SECONDS_A_SEED * count, env={**os.environ, "OMP_NUM_THREADS": "1"})
    except subprocess.TimeoutExpired as late:
        return -1, f"{late.stdout or ''}\nhung for {SECONDS_A_SEED * count} s"
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/torch", help="where the suite was built")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--suite", default=SUITE, help="a gtest filter")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1)
    options = parser.parse_args()
    program = (sources.ROOT / options.build / "tests" / "spillway_late_torch_test").resolve()
    end = options.first + options.seeds
    failed: list[int] = []
    done = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        chunks = {pool.submit(run, program, first, min(CHUNK, end - first), options.suite): first
                  for first in range(options.first, end, CHUNK)}
        for chunk in concurrent.futures.as_completed(chunks):
            status, text = chunk.result()
            first = chunks[chunk]
            done += min(CHUNK, end - first)
            if status:
                seeds = sorted({int(seed) for seed in re.findall(r"late: seed (\d+)", text)}) or [first]
                failed += seeds
                print(f"\nfailed: seeds {seeds}\n{text[-3000:]}\nagain: {program} "
                      f"--gtest_random_seed={seeds[0]} --gtest_filter='{options.suite}'", flush=True)
            elif sys.stdout.isatty() or done % (20 * CHUNK) == 0:
                print(f"{done} of {options.seeds} seeds, {len(failed)} failed", flush=True)
    print(json.dumps({"seeds": options.seeds, "first": options.first, "failed": sorted(failed)}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
