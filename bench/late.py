#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-late: what our waits cost where the copies could hide.

On the late accelerator in virtual time every operator and copy takes as long as it is told, so this is a
number about order, not about a machine. All saved bytes would take seven tenths of forward's matrix products
to leave and as long to return; the budget is so low that at least 80 % of them have to. value = step time /
step time with nothing moved. Holds when the value is at most 1.05, at least 80 % of the saved bytes moved,
gradients are equal, the checker has no report, and device bytes stay within the budget under every seed.
"""

import argparse
import pathlib

import common

BAR = 1.05
LEAST_MOVED = 0.8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/torch")
    parser.add_argument("--seeds", type=int, default=50)
    options = parser.parse_args()
    program = pathlib.Path(common.ROOT) / options.build / "bench" / "late_torch_bench"
    found = common.run_json([str(program), str(options.seeds)])
    value = found["step_ns"] / found["plain_step_ns"]
    moved = found["moved_bytes"] / found["saved_bytes"]
    holds = (value <= BAR and moved >= LEAST_MOVED and found["gradients_equal"]
             and found["checker_reports"] == 0 and found["peak_bytes"] <= found["budget_bytes"])
    common.emit("late", round(value, 4), "step time / step time with nothing moved, virtual", BAR, holds,
                {**found, "moved_share": round(moved, 3), "machine": common.machine()})


if __name__ == "__main__":
    main()
