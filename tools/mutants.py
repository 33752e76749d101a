#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`make mutants`: breaks each rule in turn, and shows that its suite notices, and passes when none is broken. The
rules of order (src/base/ordering_rules.h) belong to the suite on the late accelerator, which fails within so many
seeds; those of what is made again (src/torch_driver/recorder/recipe_rules.h) to the tests of recipes, which have none.
A suite that is not done in time has noticed nothing: that is no kill. The last line is JSON: how many rules, how
many were noticed, how many hung, and whether the suites pass as they are."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import sources

KILLED = 9  # the exit code of the suite where a broken rule was noticed
SECONDS = 1800


class Suite(NamedTuple):
    header: str  # of its rules
    program: str
    tests: str  # a gtest filter
    has_seeds: bool


SUITES = (
    Suite("src/base/ordering_rules.h", "tests/spillway_late_torch_test",  # a disk is the same under every seed
          "Semantics.*:Faults.*:Streams.*:Staged.*:LateBackward.*:Coded.*-*_on_the_disk_*", has_seeds=True),
    Suite("src/torch_driver/recorder/recipe_rules.h", "tests/spillway_torch_driver_test", "RecipeTest.*:MadeAgain.*",
          has_seeds=False))


class Outcome(NamedTuple):
    rule: str
    end: str  # killed, SURVIVED or HUNG
    how: str


def rules(suite: Suite) -> list[str]:
    return re.findall(r'"([a-z_]+)"', (sources.ROOT / suite.header).read_text().split("RuleNames{", 1)[1])


def run(program: pathlib.Path, rule: str, seeds: int, tests: str,
        seconds: float = SECONDS) -> tuple[int | None, str]:
    """The exit code and what was printed; no exit code where it was not done in time."""
    environment = {**os.environ, "SPILLWAY_BREAK": rule} if rule else dict(os.environ)
    command = [str(program), f"--gtest_repeat={seeds}", "--gtest_random_seed=1", f"--gtest_filter={tests}"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False,
                              timeout=seconds, errors="replace")
    except subprocess.TimeoutExpired:
        return None, f"not done after {seconds:.0f} s: it hangs, or so many seeds take longer"
    return done.returncode, done.stdout + done.stderr


def last(pattern: str, text: str) -> str:
    found = re.findall(pattern, text)
    return found[-1] if found else "?"


def break_one(program: pathlib.Path, rule: str, seeds: int, tests: str, seconds: float = SECONDS) -> Outcome:
    status, text = run(program, rule, seeds, tests, seconds)
    if status is None:
        return Outcome(rule, "HUNG", text)
    if status == 0:
        return Outcome(rule, "SURVIVED", f"nothing noticed in {seeds} seeds: a test is missing")
    if status == KILLED:
        return Outcome(rule, "killed", last(r"killed by (.*)", text))
    failed = re.findall(r"\[  FAILED  \] (\S+) \(", text)
    if failed:
        return Outcome(rule, "killed", f"{failed[0]} failed")
    case = last(r"\[ RUN      \] (\S+)", text)
    return Outcome(rule, "killed", f"{case} ended with {status}: {last(r'(.*assert.*|terminate called.*)', text)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/mutants", help="where the suites were built")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("rule", nargs="*", help="only these (and not the suites as they are)")
    options = parser.parse_args()
    every = [rule for suite in SUITES for rule in rules(suite)]
    unknown = sorted(set(options.rule) - set(every))
    if unknown or not every:
        sources.stop(f"mutants: no such rule: {', '.join(unknown)}")
    programs = [sources.built(sources.ROOT / options.build / suite.program, "make mutants") for suite in SUITES]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        clean, broken = [], []
        for suite, program in zip(SUITES, programs, strict=True):
            seeds = options.seeds if suite.has_seeds else 1
            if not options.rule:
                clean.append(pool.submit(run, program, "", seeds, suite.tests))
            broken += [pool.submit(break_one, program, rule, seeds, suite.tests) for rule in rules(suite)
                       if rule in (options.rule or every)]
        outcomes = []
        for outcome in concurrent.futures.as_completed(broken):
            outcomes.append(outcome.result())
            rule, end, how = outcomes[-1]
            print(f"{end:8} {rule}: {how}", flush=True)
        failed = [(status, text) for status, text in (each.result() for each in clean) if status != 0]
    for status, text in failed:
        print(f"a suite fails with no rule broken ({status}):\n{text[-4000:]}")
    ends = [outcome.end for outcome in outcomes]
    killed = ends.count("killed")
    print(json.dumps({"rules": len(outcomes), "killed": killed, "hung": ends.count("HUNG"),
                      "clean_passes": not failed}))
    return 0 if not failed and killed == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
