#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-plan: the seconds that every policy's plan takes as the values of a step get more, and the simulator's.

Two made steps under 60 % of the way from floor to peak, with host and NVMe: layers in a row with recipes, and a mixture in
which nothing repeats; for `rotor` and `pofo`, whose time grows with the number of layers, also a chain whose layers have
one value each. Each plan is made in a process of its own, which ends at --limit seconds, and is not begun after
--minutes: then not all is judged. The simulator alone runs
the chooser `online`, without a log, on steps of up to a million values.

value = the slowest policy's seconds at 1,000 values. Holds when that is at most 1, no policy takes more than 30 at
10,000, and the simulator takes at most 0.2 there and, for each value, at most three times as much at a million.
`swapadvisor` is not judged: it simulates each of its lists.
"""

import argparse
import json
import pathlib
import subprocess
from typing import Any

import common

SHAPES = ("layers", "mixture")
OF_CHAINS = ("rotor", "pofo")
BAR_S = {1_000: 1.0, 10_000: 30.0}
SIMULATED = (10_000, 100_000, 1_000_000)
SIMULATOR_BAR_S = 0.2
SIMULATOR_GROWTH = 3.0  # for each value, from 10^4 to 10^6
NOT_JUDGED = ("swapadvisor",)

Row = dict[str, Any]


def main() -> None:
    options = parse_arguments()
    program = options.build / "bench" / "plan_bench"
    deadline = common.Deadline(options.minutes)
    sizes = [size for size in (100, 1_000, 10_000) if size <= options.most]
    alone = [row_of(program, shape, size, "online", options.limit)
             for shape in SHAPES for size in SIMULATED if size <= options.most]
    wanted = [(shape, size, policy) for size in sizes for shape in SHAPES for policy in planning_policies(program)]
    wanted += [("chain", size, policy) for size in sizes for policy in OF_CHAINS]
    rows = [row_of(program, *each, options.limit) for each in wanted if 60 * deadline.minutes_left() > options.limit]
    faults = [fault for row in rows + alone for fault in faults_of(row)] + growth_faults(alone)
    judged = [row["plan_s"] for row in rows if row["values"] == 1_000 and row["policy"] not in NOT_JUDGED]
    common.emit("plan", max(judged, default=None), "s", BAR_S[1_000], not faults, {
        "rows": rows, "simulator": alone, "faults": faults, "no_time_for": wanted[len(rows):], "machine": common.machine(),
    }, unsteady=len(rows) < len(wanted))


def planning_policies(program: pathlib.Path) -> list[str]:
    return common.run([program, "policies"]).split()


def row_of(program: pathlib.Path, shape: str, values: int, policy: str, limit_s: float) -> Row:
    """The program's line; where it does not end in time, that time."""
    row: Row = {"shape": shape, "values": values, "policy": policy}
    try:
        done = subprocess.run([program, shape, str(values), policy], capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        row |= {"plan_s": limit_s, "simulate_s": limit_s, "plan": "not in time"}
    else:
        row |= json.loads(done.stdout) if done.returncode == 0 else {"plan_s": 0, "simulate_s": 0, "plan": done.stderr.strip()}
        row["is_wrong"] = done.returncode != 0
    common.progress(f"{shape:8} {values:8} {policy:16} {row['plan_s']:9.3f} s, one step simulated {row['simulate_s']:9.3f} s")
    return row


def faults_of(row: Row) -> list[str]:
    who = f"{row['policy']}, {row['values']} values, {row['shape']}"
    if row.get("is_wrong"):
        return [f"{who}: {row['plan']}"]
    if row["policy"] == "online":
        bar_s, took_s = (SIMULATOR_BAR_S if row["values"] <= 10_000 else float("inf")), row["simulate_s"]
    else:
        bar_s, took_s = BAR_S.get(row["values"], float("inf")), row["plan_s"]
    return [f"{who}: {took_s:.2f} s"] if took_s > bar_s and row["policy"] not in NOT_JUDGED else []


def growth_faults(alone: list[Row]) -> list[str]:
    """The simulator's time for each value stays, but for a logarithm and for caches."""
    each_s = {(row["shape"], row["values"]): row["simulate_s"] / row["values"] for row in alone}
    return [f"simulator, {shape}: {each_s[shape, most] / each_s[shape, SIMULATED[0]]:.1f} times as long for each of {most} values"
            for shape, most in each_s if each_s[shape, most] > SIMULATOR_GROWTH * each_s[shape, SIMULATED[0]]]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(common.ROOT) / "build" / "torch")
    parser.add_argument("--most", type=int, default=SIMULATED[-1], help="no step of more values [1000000]")
    common.add_minutes(parser)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a plan is given up [60]")
    return parser.parse_args()


if __name__ == "__main__":
    main()
