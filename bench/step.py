#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-step: a step under the cap against a step of plain training without cap.

Pairs of short runs, the order swapped every pair: bench/plain_train (stock torch and allocator,
Spillway not loaded) and `spillway train` under the cap, same seed, text and threads. A run's number
is the median of its steps without the first; value = the median over pairs of ours / plain's.
Holds when that is at most 1.05, every loss is equal, the cap is at most a third of plain's own
allocator peak (read in a run of its own), and that peak is above 1.5 GB.
"""

import argparse
import pathlib

import common
import train_runs
from train_runs import Run

BAR = 1.05
PLAIN_PEAK_BAR_BYTES = 1_500_000_000
COUNTED_STEPS = 2


def main() -> None:
    options = parse_arguments()
    program = train_runs.programs(options.build)
    with train_runs.scratch(options) as name:
        folder = pathlib.Path(name)
        flags = train_runs.shared_flags(options, options.steps)
        nvme = folder / "nvme"
        nvme.mkdir()

        def run(side: str, command: list[str], more: list[str]) -> Run:
            return train_runs.stop_unless_ok(
                train_runs.train(side, command, more, folder, show=options.verbose))

        count = run("count", program.spillway,
                    [*train_runs.shared_flags(options, COUNTED_STEPS), "--count-allocations"])
        measured = common.pairs(
            options.pairs,
            ours=lambda: run("spillway", program.spillway,
                             [*flags, "--device-budget", options.cap, "--nvme", str(nvme)]),
            theirs=lambda: run("plain", program.plain, flags),
            warm_up=0, show=show)
    cap, peak = common.parse_size(options.cap), count.allocator_peak_bytes
    equal = all(train_runs.losses_equal(measured[0][1], side) for pair in measured for side in pair)
    ratios = [train_runs.usual_seconds(ours) / train_runs.usual_seconds(plain)
              for ours, plain in measured]
    value = common.median(ratios)
    holds = (value <= BAR and equal and 3 * cap <= peak and peak > PLAIN_PEAK_BAR_BYTES
             and len(measured) >= 5)
    common.emit("step", round(value, 4), "ratio", BAR, holds, {
        "ratio": common.spread(ratios),
        "losses_equal": equal,
        "cap_bytes": cap,
        "plain_peak_bytes": peak,
        "cap_over_plain_peak": round(cap / peak, 4),
        **sides(measured),
        "pairs": len(measured), "steps": options.steps, "seed": options.seed,
        "threads": options.threads, "flags": options.flags,
        "machine": common.machine(),
    })


def sides(measured: list[tuple[Run, Run]]) -> dict[str, object]:
    """What both sides did, smallest, median and largest run."""
    ours, plain = [pair[0] for pair in measured], [pair[1] for pair in measured]
    reports = [run.report for run in ours]
    steps = len(ours[0].losses)
    return {
        "spillway_step_s": common.spread([train_runs.usual_seconds(run) for run in ours]),
        "plain_step_s": common.spread([train_runs.usual_seconds(run) for run in plain]),
        "spillway_allocator_peak_bytes": max(run.allocator_peak_bytes for run in ours),
        "spillway_process_peak_bytes": max(run.process_peak_bytes for run in ours),
        "plain_process_peak_bytes": max(run.process_peak_bytes for run in plain),
        "written_gb_per_step": common.spread([run.bytes_written / steps / 1e9 for run in ours]),
        "read_gb_per_step": common.spread([run.bytes_read / steps / 1e9 for run in ours]),
        "stall_store_s_per_step": common.spread([r["stall_store_ns"] / steps / 1e9 for r in reports]),
        "stall_load_s_per_step": common.spread([r["stall_load_ns"] / steps / 1e9 for r in reports]),
    }


def show(number: int, ours: Run, plain: Run) -> str:
    mine, other = train_runs.usual_seconds(ours), train_runs.usual_seconds(plain)
    return f"pair {number}: {mine:.3f} s under the cap, {other:.3f} s plain, ratio {mine / other:.4f}"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    train_runs.add_flags(parser)
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="at least 5 (default %(default)s)")
    parser.add_argument("--steps", type=int, default=5, metavar="N", help="a run (default %(default)s)")
    parser.add_argument("--verbose", action="store_true", help="show what the runs print")
    return parser.parse_args()


if __name__ == "__main__":
    main()
