#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-states: the smallest budget of a GPT with AdamW whose state leaves the device between steps, and the step there.

value = that budget / the smallest one of the same training with the state on the device; both move saved tensors to a
drive (states_run.py). It holds at 0.7 or less, when the first budget is refused where the state stays, and all losses are
plain training's. Times are ratios of one round's steps to plain's, their medians, beside plain against plain; they are
judged by nobody, since they are the drive's.
"""

import argparse
import os
import pathlib
from typing import Any

import common
import steady
import train_runs

BAR = 0.7


def main() -> None:
    options = parse_arguments()
    if not (options.build / "python.path").exists():
        train_runs.stop(f"{options.build} is not built; `make build` builds it")
    measured = common.run_json(["tools/package.sh", os.path.relpath(options.build.resolve(), common.ROOT), "bench/states_run.py",
                                "--minutes", str(options.minutes), "--nvme", str(options.build.resolve())], cwd=common.ROOT)
    value = measured["leaves"]["budget_bytes"] / measured["stays"]["budget_bytes"]
    times = times_of(measured["rounds"])
    common.progress(f"steps over plain's: {times['median']}; plain over plain {times['plain_over_plain']}, {times['rounds']} rounds")
    detail = {key: measured[key] for key in ("parameter_bytes", "is_refused", "losses_equal", "moved_bytes_a_step")}
    sizes = {side: {key: measured[side][key] for key in ("needed_bytes", "budget_bytes", "peak_bytes")} for side in ("stays", "leaves")}
    holds = value <= BAR and measured["is_refused"] and measured["losses_equal"]
    common.emit("states", round(value, 4), "ratio", BAR, holds, {**detail, **sizes, "times": times, "machine": common.machine()})


def times_of(rounds: list[dict[str, float]]) -> dict[str, Any]:
    again = [done["plain again"] / done["plain"] for done in rounds]
    return {"rounds": len(rounds), "steady": steady.is_steady(again),
            "plain_over_plain": [round(end, 3) for end in steady.interval_of_median(again)],
            "plain_s": round(common.median([done["plain"] for done in rounds]), 3),
            "median": {side: round(common.median([done[side] / done["plain"] for done in rounds]), 3)
                       for side in ("stays", "leaves, same budget", "leaves")}}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=train_runs.ROOT / "build" / "torch", metavar="DIR",
                        help="where spillway is built, and where bytes wait (default build/torch)")
    common.add_minutes(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
