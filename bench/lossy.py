#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-lossy: does training with 4- and 8-bit activations reach the loss of lossless training?

Not in CI. A GPT on real text, three seeds, each trained twice with equal batches under the same
cap: lossless (--policy online) and --policy qpo --lossy. Every run measures the loss on held-out text.
Runs have 1,200 steps, or as many as a short run shows to end in `--minutes` (all 1,200 take half an hour).
value = the difference of the mean final validation losses / the spread of the lossless seeds (largest
less smallest). Holds when that is at most 1. Fewer than 1,000 steps are too few to be judged: then the line
says `"unsteady": true`. Of others the curves go to bench/results/lossy.csv and lossy.svg.
"""

import argparse
import csv
import pathlib

import common
import train_runs
from train_runs import Run

LEAST_STEPS, MOST_STEPS = 1000, 1200
TRIED_STEPS, BESIDE_STEPS = 20, 1.3  # steps' share of a run's time: there is starting and validation, too
MODEL = ["--layers", "4", "--width", "128", "--heads", "4", "--sequence", "128", "--batch", "16",
         "--lr", "0.001"]
SIDES = {"lossless": ["--policy", "online"], "qpo": ["--policy", "qpo", "--lossy"]}


def main() -> None:
    options = parse_arguments()
    deadline = common.Deadline(options.minutes)
    runs: dict[str, list[Run]] = {side: [] for side in SIDES}
    with train_runs.scratch(options) as name:
        folder = pathlib.Path(name)
        options.steps = options.steps or steps_in(deadline, options, folder)
        for seed in range(options.seeds):
            for side in SIDES:
                runs[side].append(train(options, side, seed, options.steps, folder))
                last = runs[side][-1].validation[-1]
                common.progress(f"seed {seed}, {side}: {last['loss']:.4f} after {last['step']} steps, "
                                f"{train_runs.usual_seconds(runs[side][-1]):.3f} s a step")
    if options.steps >= LEAST_STEPS:
        write_curves(options.results, runs)
    report(options, runs)


def train(options: argparse.Namespace, side: str, seed: int, steps: int, folder: pathlib.Path) -> Run:
    flags = [*MODEL, "--steps", str(steps), "--seed", str(seed), "--threads", str(options.threads),
             "--validate-every", str(min(options.every, steps)), "--device-budget", options.cap, "--nvme", str(folder),
             *SIDES[side], *options.flags]
    program = train_runs.programs(options.build).spillway
    return train_runs.stop_unless_ok(train_runs.train(side, program, flags, folder, show=options.verbose))


def steps_in(deadline: common.Deadline, options: argparse.Namespace, folder: pathlib.Path) -> int:
    """As many as end in time, validation included, as a short run of each side shows; a multiple of those between points."""
    a_step_s = BESIDE_STEPS * mean([train_runs.usual_seconds(train(options, side, 0, TRIED_STEPS, folder)) for side in SIDES])
    steps = int(60 * deadline.share(len(SIDES) * options.seeds) / a_step_s)
    return max(options.every, min(MOST_STEPS, steps // options.every * options.every))


def final(runs: list[Run]) -> list[float]:
    return [run.validation[-1]["loss"] for run in runs]


def report(options: argparse.Namespace, runs: dict[str, list[Run]]) -> None:
    lossless, lossy = final(runs["lossless"]), final(runs["qpo"])
    seeds = max(lossless) - min(lossless)
    apart = abs(mean(lossy) - mean(lossless))
    moved = [run.report["stored_bytes"] for side in runs.values() for run in side]
    is_short = options.steps < LEAST_STEPS
    holds = (is_short or apart <= seeds) and len(lossy) >= 3 and min(moved) > 0
    common.emit("lossy", round(apart / seeds, 4) if seeds else None, "ratio", 1, holds, {
        "final_lossless": lossless, "final_qpo": lossy, "difference": round(mean(lossy) - mean(lossless), 5),
        "spread_of_seeds": round(seeds, 5), "steps": options.steps, "cap": options.cap,
        "codecs": runs["qpo"][0].report["codecs"],
        "stored_bytes_a_step": {side: round(runs[side][0].report["stored_bytes"] / options.steps) for side in runs},
        "model": MODEL, "threads": options.threads, "flags": options.flags, "machine": common.machine(),
    }, unsteady=is_short)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def write_curves(folder: pathlib.Path, runs: dict[str, list[Run]]) -> None:
    """The points as a table and as a picture."""
    with (folder / "lossy.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["side", "seed", "step", "validation_loss"])
        for side, of_side in runs.items():
            for seed, run in enumerate(of_side):
                table.writerows([side, seed, at["step"], at["loss"]] for at in run.validation)
    try:
        import matplotlib  # noqa: PLC0415 - only a run that ended needs it
    except ImportError:
        common.progress("no matplotlib in this Python: no picture")
        return
    matplotlib.use("svg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for (side, of_side), colour in zip(runs.items(), ("tab:blue", "tab:orange"), strict=True):
        for seed, run in enumerate(of_side):
            axes.plot([at["step"] for at in run.validation], [at["loss"] for at in run.validation],
                      color=colour, linewidth=1, linestyle="-" if side == "lossless" else "--",
                      label=side if seed == 0 else None)
    axes.set_xlabel("updates")
    axes.set_ylabel("loss on held-out text")
    axes.legend()
    figure.tight_layout()
    figure.savefig(folder / "lossy.svg", metadata={"Date": None})


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    train_runs.add_flags(parser, cap="40MiB")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="default %(default)s")
    parser.add_argument("--steps", type=int, metavar="N",
                        help=f"a run (default: as many as end in the minutes, at most {MOST_STEPS})")
    common.add_minutes(parser, "in all")
    parser.add_argument("--every", type=int, default=50, metavar="N", help="updates between points (default %(default)s)")
    parser.add_argument("--results", type=pathlib.Path, default=train_runs.ROOT / "bench" / "results", metavar="DIR",
                        help="for the curves (default bench/results)")
    parser.add_argument("--verbose", action="store_true", help="show what the runs print")
    return parser.parse_args()


if __name__ == "__main__":
    main()
