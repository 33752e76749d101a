#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-qpo: a step that moves its saved tensors encoded against one that moves them as they are.

`spillway train` of a GPT under a cap, with the disk behind a rate limiter, so that the link is the
bottleneck: raw, what leaves in a step takes twice the forward, as on an A100 behind PCIe (the napkin
figures of the authors' machine). Three runs a round, the order turned every round: plain training
without a cap, --policy online (uncompressed), --policy qpo. Each run's number is the median of its
steps without the first; value = the median over rounds of uncompressed / qpo. Rounds are added until
the machine is steady (steady.py), or none more ends in `--minutes`: then no time is judged. Holds when the
value is at least 1.15, the authors' figure, and the peak of qpo is not above that of uncompressed.
"""

import argparse
import pathlib

import common
import steady
import train_runs
from train_runs import Run

BAR = 1.15
LINK_OVER_FORWARD = 2.0  # seconds on the link, raw, for each of the forward


def main() -> None:
    options = parse_arguments()
    deadline = common.Deadline(options.minutes)
    program = train_runs.programs(options.build)
    with train_runs.scratch(options) as name:
        folder = pathlib.Path(name)
        nvme = folder / "nvme"
        nvme.mkdir()
        flags = train_runs.shared_flags(options, options.steps)
        capped = [*flags, "--nvme", str(nvme), "--device-budget"]

        def run(side: str, more: list[str]) -> Run:
            return train_runs.stop_unless_ok(
                train_runs.train(side, program.spillway, more, folder, show=options.verbose))

        def plain() -> Run:
            return train_runs.stop_unless_ok(
                train_runs.train("plain", program.plain, flags, folder, show=options.verbose))

        left = run("calibrate", [*capped, options.cap]).report["stored_bytes"] / options.steps
        rate = int(left / (LINK_OVER_FORWARD * common.median(plain().forward_seconds[1:])))
        limited = ["--nvme-rate", str(rate)]
        sides = {
            "plain": plain,
            "uncompressed": lambda: run("uncompressed", [*capped, options.cap, *limited, "--policy", "online"]),
            "qpo": lambda: run("qpo", [*capped, options.qpo_cap, *limited, "--policy", "qpo", "--lossy"]),
        }
        rounds, is_steady = steady.rounds_until_steady(
            sides, train_runs.usual_seconds, deadline.minutes_left(), show, options.rounds)
    report(options, rounds, is_steady, rate, left)


def show(number: int, done: dict[str, Run]) -> None:
    seconds = {name: round(train_runs.usual_seconds(run), 3) for name, run in done.items()}
    common.progress(f"round {number}: seconds a step {seconds}")


def report(options: argparse.Namespace, rounds: list[dict[str, Run]], is_steady: bool, rate: int, left: float) -> None:
    def ratios(above: str, below: str) -> list[float]:
        return [train_runs.usual_seconds(r[above]) / train_runs.usual_seconds(r[below]) for r in rounds]

    def peak(side: str) -> int:
        return max(r[side].allocator_peak_bytes for r in rounds if r[side].allocator_peak_bytes)

    def step_share(side: str, cause: str) -> list[float]:
        return common.spread([r[side].report[cause] / options.steps / 1e9 for r in rounds])

    value = common.median(ratios("uncompressed", "qpo"))
    lower = peak("qpo") <= peak("uncompressed")
    common.emit("qpo", round(value, 4), "ratio", BAR, lower and (value >= BAR or not is_steady), {
        "uncompressed_over_qpo": common.spread(ratios("uncompressed", "qpo")),
        "qpo_over_plain": common.spread(ratios("qpo", "plain")),
        "uncompressed_over_plain": common.spread(ratios("uncompressed", "plain")),
        "qpo_peak_bytes": peak("qpo"), "uncompressed_peak_bytes": peak("uncompressed"),
        "link_bytes_per_s": rate, "raw_bytes_per_step": round(left),
        "qpo_moved_bytes_per_step": round(rounds[0]["qpo"].report["stored_bytes"] / options.steps),
        "losses_plain": rounds[0]["plain"].losses, "losses_qpo": rounds[0]["qpo"].losses,
        "losses_uncompressed_equal_plain": all(
            train_runs.losses_equal(r["plain"], r["uncompressed"]) for r in rounds),
        **{f"{side}_{cause}_s_per_step": step_share(side, cause + "_ns")
           for side in ("uncompressed", "qpo") for cause in ("stall_store", "stall_load")},
        "codecs": rounds[0]["qpo"].report["codecs"],
        "cap": options.cap, "qpo_cap": options.qpo_cap, "steps": options.steps, "rounds": len(rounds), "threads": options.threads,
        "flags": options.flags, "machine": common.machine(),
    }, unsteady=not is_steady)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    train_runs.add_flags(parser, cap="640MiB")
    parser.add_argument("--qpo-cap", default="632MiB", metavar="SIZE",
                        help="a little lower: peaks lie within a mebibyte of a cap (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="at least (default %(default)s)")
    common.add_minutes(parser)
    parser.add_argument("--steps", type=int, default=5, metavar="N", help="a run (default %(default)s)")
    parser.add_argument("--verbose", action="store_true", help="show what the runs print")
    return parser.parse_args()


if __name__ == "__main__":
    main()
