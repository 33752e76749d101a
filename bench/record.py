#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-record: what watching a step's operators costs in a session whose budget holds all.

Of each of four models, rounds of one step of every side in a random order, on one thread and in one process
(record_run.py): a session that makes nothing again (`recompute="off"`), twice; one of the defaults, which could; one
whose step is recorded (`session.trace`), as each session's second or third step is before a plan is made; and one that
runs a plan under which all stays. Ratios are
those of one round, their median, to "off"'s step. Losses and gradients are compared bit by bit.
value = the largest recorded / off of the models that are steady (steady.py); holds when it and the other two / off are at
most 1.02 and all sides have the same bits. The models of few operators and little work show what an operator costs.
"""

import argparse
import os
import pathlib
from typing import Any

import common
import steady
import train_runs

BAR = 1.02
SIDES = ("recorded", "auto", "planned")

Measured = dict[str, Any]


def main() -> None:
    options = parse_arguments()
    python = options.build / "python.path"
    if not python.exists():
        train_runs.stop(f"{options.build} is not built; `make build` builds it")
    models = common.run_json(["tools/package.sh", os.path.relpath(options.build.resolve(), common.ROOT), "bench/record_run.py",
                              "--minutes", str(options.minutes)], cwd=common.ROOT)
    rows = [row_of(name, measured) for name, measured in models.items()]
    for row in rows:
        common.progress(words(row))
    judged = [row for row in rows if row["steady"]]
    value = max((row["recorded"] for row in judged), default=None)
    equal = all(measured["bits_equal"] for measured in models.values())
    holds = equal and all(row[side] <= BAR for row in judged for side in SIDES)
    common.emit("record", value, "ratio", BAR, holds, {"rows": rows, "bits_equal": equal, "machine": common.machine()},
                unsteady=len(judged) < len(rows))


def row_of(name: str, measured: Measured) -> dict[str, Any]:
    rounds = measured["rounds"]
    off_over_off = [done["off again"] / done["off"] for done in rounds]
    return {"model": name, "operators": measured["operators"], "rounds": len(rounds), "steady": steady.is_steady(off_over_off),
            "off_over_off": [round(end, 4) for end in steady.interval_of_median(off_over_off)],
            "off_ms": round(1e3 * common.median([done["off"] for done in rounds]), 3),
            **{side: round(common.median([done[side] / done["off"] for done in rounds]), 4) for side in SIDES},
            **{f"{side}_ns_an_operator": round(1e9 * common.median([done[side] - done["off"] for done in rounds]) / measured["operators"])
               for side in SIDES}}


def words(row: dict[str, Any]) -> str:
    low, high = row["off_over_off"]
    return (f"{row['model']}: a step of {row['off_ms']:.1f} ms and {row['operators']} operators; recorded {row['recorded']:.3f}, "
            f"defaults {row['auto']:.3f}, under a plan {row['planned']:.3f} (off beside off {low:.3f} to {high:.3f})")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=train_runs.ROOT / "build" / "torch", metavar="DIR",
                        help="where spillway is built (default build/torch)")
    common.add_minutes(parser, "in all, of each model as much")
    return parser.parse_args()


if __name__ == "__main__":
    main()
