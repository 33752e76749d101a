#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-lossy: does training with 4- and 8-bit activations reach the loss of lossless training?

Long, not in CI. A GPT on real text, three seeds, each trained twice with equal batches under the same
cap: lossless (--policy online) and --policy qpo --lossy. Every run measures the loss on held-out text.
value = the difference of the mean final validation losses / the spread of the lossless seeds (largest
less smallest). Holds when that is at most 1 and each run did at least 1,000 steps. The curves go to
bench/results/lossy.csv and lossy.svg.
"""

import argparse
import csv
import pathlib

import common
import train_runs
from train_runs import Run

LEAST_STEPS = 1000
MODEL = ["--layers", "4", "--width", "128", "--heads", "4", "--sequence", "128", "--batch", "16",
         "--lr", "0.001"]
SIDES = {"lossless": ["--policy", "online"], "qpo": ["--policy", "qpo", "--lossy"]}


def main() -> None:
    options = parse_arguments()
    program = train_runs.programs(options.build)
    runs: dict[str, list[Run]] = {side: [] for side in SIDES}
    with train_runs.scratch(options) as name:
        folder = pathlib.Path(name)
        for seed in range(options.seeds):
            for side, policy in SIDES.items():
                flags = [*MODEL, "--steps", str(options.steps), "--seed", str(seed), "--threads", str(options.threads),
                         "--validate-every", str(options.every), "--device-budget", options.cap, "--nvme", str(folder),
                         *policy, *options.flags]
                runs[side].append(train_runs.stop_unless_ok(
                    train_runs.train(side, program.spillway, flags, folder, show=options.verbose)))
                last = runs[side][-1].validation[-1]
                common.progress(f"seed {seed}, {side}: {last['loss']:.4f} after {last['step']} steps, "
                                f"{train_runs.usual_seconds(runs[side][-1]):.3f} s a step")
    write_curves(options.results, runs)
    report(options, runs)


def final(runs: list[Run]) -> list[float]:
    return [run.validation[-1]["loss"] for run in runs]


def report(options: argparse.Namespace, runs: dict[str, list[Run]]) -> None:
    lossless, lossy = final(runs["lossless"]), final(runs["qpo"])
    seeds = max(lossless) - min(lossless)
    apart = abs(mean(lossy) - mean(lossless))
    moved = [run.report["stored_bytes"] for side in runs.values() for run in side]
    holds = apart <= seeds and options.steps >= LEAST_STEPS and len(lossy) >= 3 and min(moved) > 0
    common.emit("lossy", round(apart / seeds, 4) if seeds else None, "ratio", 1, holds, {
        "final_lossless": lossless, "final_qpo": lossy, "difference": round(mean(lossy) - mean(lossless), 5),
        "spread_of_seeds": round(seeds, 5), "steps": options.steps, "cap": options.cap,
        "codecs": runs["qpo"][0].report["codecs"],
        "stored_bytes_a_step": {side: round(runs[side][0].report["stored_bytes"] / options.steps) for side in runs},
        "model": MODEL, "threads": options.threads, "flags": options.flags, "machine": common.machine(),
    })


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
    parser.add_argument("--steps", type=int, default=1200, metavar="N", help="a run (default %(default)s)")
    parser.add_argument("--every", type=int, default=50, metavar="N", help="updates between points (default %(default)s)")
    parser.add_argument("--results", type=pathlib.Path, default=train_runs.ROOT / "bench" / "results", metavar="DIR",
                        help="for the curves (default bench/results)")
    parser.add_argument("--verbose", action="store_true", help="show what the runs print")
    return parser.parse_args()


if __name__ == "__main__":
    main()
