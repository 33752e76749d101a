#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-step: a step under the cap against a step of plain training without cap.

Rounds of short runs, the order turned every round: bench/plain_train (stock torch and allocator, Spillway not loaded),
`spillway train` under the cap, and `spillway train` under a budget that holds all, which moves nothing: beside that one
what moving costs is seen by itself, beside plain also what our allocator saves (stock's gives large blocks back to the
system and takes them again page by page). Same seed, text and threads. A run's number is the median of its steps
without the first; value = the median over rounds of the step under the cap / plain's. Rounds are added until the
machine is steady (steady.py), or none more ends in `--minutes`: then no time is judged.
Holds when the value and the ratio to the run that moves nothing are at most 1.05, every loss is equal, the cap is at
most a third of plain's own allocator peak (read in a run of its own), and that peak is above 1.5 GB.

With --models: the other bench in step_models.py, of six models in Python.
"""

import argparse
import pathlib

import common
import steady
import step_models
import train_runs
from train_runs import Run

BAR = 1.05
PLAIN_PEAK_BAR_BYTES = 1_500_000_000
COUNTED_STEPS = 2
HELD = 2  # of plain's peak: a budget that nothing exceeds


def main() -> None:
    options = parse_arguments()
    if options.models:
        step_models.main(options)
        return
    deadline = common.Deadline(options.minutes)
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
        def capped(side: str, budget: str) -> Run:
            return run(side, program.spillway, [*flags, "--device-budget", budget, "--nvme", str(nvme)])

        peak = count.allocator_peak_bytes
        rounds, is_steady = steady.rounds_until_steady(
            {"spillway": lambda: capped("spillway", options.cap),
             "held": lambda: capped("held", str(HELD * peak)),
             "plain": lambda: run("plain", program.plain, flags)},
            train_runs.usual_seconds, deadline.minutes_left(), show)
    report(options, rounds, is_steady, peak)


def report(options: argparse.Namespace, rounds: list[dict[str, Run]], is_steady: bool, peak: int) -> None:
    def ratios(above: str, below: str) -> list[float]:
        return [train_runs.usual_seconds(each[above]) / train_runs.usual_seconds(each[below]) for each in rounds]

    cap = common.parse_size(options.cap)
    equal = all(train_runs.losses_equal(rounds[0]["plain"], run) for each in rounds for run in each.values())
    value, over_held = common.median(ratios("spillway", "plain")), common.median(ratios("spillway", "held"))
    nothing_moved = all(each["held"].report["stored_bytes"] == 0 for each in rounds)
    in_time = not is_steady or (value <= BAR and over_held <= BAR)
    holds = in_time and equal and nothing_moved and 3 * cap <= peak and peak > PLAIN_PEAK_BAR_BYTES
    common.emit("step", round(value, 4), "ratio", BAR, holds, {
        "ratio": common.spread(ratios("spillway", "plain")),
        "over_nothing_moved": common.spread(ratios("spillway", "held")),
        "nothing_moved_over_plain": common.spread(ratios("held", "plain")),
        "losses_equal": equal,
        "cap_bytes": cap,
        "plain_peak_bytes": peak,
        "cap_over_plain_peak": round(cap / peak, 4),
        **sides(rounds),
        "rounds": len(rounds), "steps": options.steps, "seed": options.seed,
        "threads": options.threads, "flags": options.flags,
        "machine": common.machine(),
    }, unsteady=not is_steady)


def sides(rounds: list[dict[str, Run]]) -> dict[str, object]:
    """What the sides did, smallest, median and largest run."""
    ours, plain = [each["spillway"] for each in rounds], [each["plain"] for each in rounds]
    reports = [run.report for run in ours]
    steps = len(ours[0].losses)
    return {
        "spillway_step_s": common.spread([train_runs.usual_seconds(run) for run in ours]),
        "nothing_moved_step_s": common.spread([train_runs.usual_seconds(each["held"]) for each in rounds]),
        "plain_step_s": common.spread([train_runs.usual_seconds(run) for run in plain]),
        "spillway_allocator_peak_bytes": max(run.allocator_peak_bytes for run in ours),
        "spillway_process_peak_bytes": max(run.process_peak_bytes for run in ours),
        "plain_process_peak_bytes": max(run.process_peak_bytes for run in plain),
        "written_gb_per_step": common.spread([run.bytes_written / steps / 1e9 for run in ours]),
        "read_gb_per_step": common.spread([run.bytes_read / steps / 1e9 for run in ours]),
        "stall_store_s_per_step": common.spread([r["stall_store_ns"] / steps / 1e9 for r in reports]),
        "stall_load_s_per_step": common.spread([r["stall_load_ns"] / steps / 1e9 for r in reports]),
    }


def show(number: int, done: dict[str, Run]) -> None:
    mine, held, plain = (train_runs.usual_seconds(done[name]) for name in ("spillway", "held", "plain"))
    common.progress(f"round {number}: {mine:.3f} s under the cap, {held:.3f} s with nothing moved, {plain:.3f} s plain, "
                    f"ratios {mine / plain:.4f} and {mine / held:.4f}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    train_runs.add_flags(parser)
    parser.add_argument("--minutes", type=float, metavar="N", help="in all: no round is begun that would not end in them "
                        f"(default {common.MINUTES}; with --models {step_models.MINUTES}, the rounds of each model)")
    parser.add_argument("--steps", type=int, default=5, metavar="N", help="a run (default %(default)s)")
    parser.add_argument("--verbose", action="store_true", help="show what the runs print")
    step_models.add_flags(parser)
    options = parser.parse_args()
    if (options.only or options.quick) and not options.models:
        parser.error("--only and --quick are of --models")
    if options.minutes is None:
        options.minutes = step_models.MINUTES if options.models else common.MINUTES
    return options


if __name__ == "__main__":
    main()
