#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`make mutants`: breaks each rule of order (src/base/ordering_rules.h) in turn, and shows that the suite on the
late accelerator fails within so many seeds, and passes on the same seeds when none is broken. A suite
that is not done in time has noticed nothing: that is no kill. The last line is JSON: how many rules, how
many were noticed, how many hung, and whether the suite passes as it is."""

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

SUITE = "Semantics.*:Faults.*:Streams.*:Staged.*:LateBackward.*:Coded.*-*_on_the_disk_*"  # a disk is the same under every seed
KILLED = 9  # the exit code of the suite where a broken rule was noticed
SECONDS = 1800


class Outcome(NamedTuple):
    rule: str
    end: str  # killed, SURVIVED or HUNG
    how: str


def rules() -> list[str]:
    text = (sources.ROOT / "src" / "base" / "ordering_rules.h").read_text()
    return re.findall(r'"([a-z_]+)"', text.split("kOrderingRuleNames", 1)[1])


def run(program: pathlib.Path, rule: str, seeds: int, suite: str,
        seconds: float = SECONDS) -> tuple[int | None, str]:
    """The exit code and what was printed; no exit code where it was not done in time."""
    environment = {**os.environ, "SPILLWAY_BREAK": rule} if rule else dict(os.environ)
    command = [str(program), f"--gtest_repeat={seeds}", "--gtest_random_seed=1", f"--gtest_filter={suite}"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False,
                              timeout=seconds, errors="replace")
    except subprocess.TimeoutExpired:
        return None, f"not done after {seconds:.0f} s: it hangs, or so many seeds take longer"
    return done.returncode, done.stdout + done.stderr


def last(pattern: str, text: str) -> str:
    found = re.findall(pattern, text)
    return found[-1] if found else "?"


def break_one(program: pathlib.Path, rule: str, seeds: int, suite: str, seconds: float = SECONDS) -> Outcome:
    status, text = run(program, rule, seeds, suite, seconds)
    if status is None:
        return Outcome(rule, "HUNG", text)
    if status == 0:
        return Outcome(rule, "SURVIVED", f"nothing noticed in {seeds} seeds: a test is missing")
    if status == KILLED:
        return Outcome(rule, "killed", last(r"killed by (.*)", text))
    case = last(r"\[ RUN      \] (\S+)", text)
    return Outcome(rule, "killed", f"{case} ended with {status}: {last(r'(.*assert.*|terminate called.*)', text)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/mutants", help="where the suite was built")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--suite", default=SUITE, help="a gtest filter")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("rule", nargs="*", help="only these (and not the suite as it is)")
    options = parser.parse_args()
    every = options.rule or rules()
    unknown = sorted(set(every) - set(rules()))
    if unknown or not every:
        sources.stop(f"mutants: no such rule: {', '.join(unknown)}")
    program = sources.built(sources.ROOT / options.build / "tests" / "spillway_late_torch_test", "make mutants")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        clean = None if options.rule else pool.submit(run, program, "", options.seeds, options.suite)
        broken = [pool.submit(break_one, program, rule, options.seeds, options.suite) for rule in every]
        outcomes = []
        for outcome in concurrent.futures.as_completed(broken):
            outcomes.append(outcome.result())
            rule, end, how = outcomes[-1]
            print(f"{end:8} {rule}: {how}", flush=True)
        status, text = clean.result() if clean else (0, "")
    if status != 0:
        print(f"the suite fails with no rule broken ({status}):\n{text[-4000:]}")
    ends = [outcome.end for outcome in outcomes]
    killed = ends.count("killed")
    print(json.dumps({"rules": len(outcomes), "killed": killed, "hung": ends.count("HUNG"),
                      "clean_passes": status == 0}))
    return 0 if status == 0 and killed == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
