#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-recompute: how far the peak of a step falls when tensors can only be made again, and what that costs.

Fourteen models with random weights, each in a process of its own (recompute_models.py), with neither NVMe nor a host
budget: what a session drops, it makes again. A peak is what a step takes beyond weights and buffers. Two budgets: the
smallest in which steps end, found by halving to 1 % of plain's peak, and the share of plain's peak that a first
experiment reached for the same model with at most four operators for a tensor (FIRST). Rounds run plain twice, a session
that drops nothing and both budgets, in an order of their own; a step's time is the CPU time of all its threads, as the
experiment's was. Ratios are medians over the rounds, each of one round's times.
A model is begun only if it would end in `--minutes`, as the longest before it took; of those that are not, the line says so.
A Markdown table, then one JSON line. value = the largest of step / plain at the experiment's peak, over the experiment's
own step / plain, of the models that are judged: those whose plain beside plain is steady (steady.py). Holds when it is at
most 1, each model reaches the experiment's peak, and every loss, gradient, buffer and random state has plain's bits, in
the steps of the search, too.
"""

import argparse
import json
import os
import pathlib
import subprocess
from typing import Any, NamedTuple

import common
import steady
import train_runs

BAR = 1.0
LEAST_ROUNDS, MINUTES_OF_ROUNDS = 5, 0.4


class First(NamedTuple):
    """Figures of the experiment, with at most four operators for a tensor. A megabyte is 10**6 bytes."""
    peak_mb: int           # plain's, beyond what was there before the step
    smallest_mb: int       # with tensors made again
    over_plain: float      # the step's CPU time / plain's
    again: int             # percent of the saved bytes

    @property
    def share(self) -> float:
        """Of plain's peak, the largest that it may have been: the megabytes are rounded."""
        return (self.smallest_mb + 0.5) / self.peak_mb


FIRST = {
    "gpt2-sdpa-drop": First(359, 160, 1.04, 58),
    "gpt2-eager-drop": First(359, 160, 1.14, 58),
    "gpt2-ckpt": First(83, 82, 0.99, 12),
    "llama-sdpa": First(147, 86, 1.02, 47),
    "llama-eager-drop": First(304, 144, 1.11, 56),
    "llama-sdpa-bf16amp": First(118, 68, 1.19, 56),
    "llama-lora-drop": First(209, 136, 1.14, 38),
    "bert-drop": First(289, 137, 1.13, 56),
    "t5-drop": First(280, 121, 1.21, 59),
    "mixtral": First(112, 69, 1.09, 42),
    "vit-drop": First(267, 135, 1.12, 57),
    "convnext_tiny": First(243, 176, 1.02, 47),
    "gpt2-sdpa-nodrop": First(199, 110, 1.05, 48),
    "resnet18": First(146, 112, 1.04, 36),
}
COLUMNS = {
    "model": "model", "saved_mb": "saved, MB", "peak_mb": "peak of plain, MB", "smallest_mb": "smallest, MB",
    "smallest_share": "/ plain", "first_share": "experiment's", "over_plain": "step / plain there", "again": "made again",
    "at_share_over_plain": "step / plain at the experiment's peak", "first_over_plain": "experiment's",
    "at_share_again": "made again", "first_again": "experiment's", "bits": "bits"}

Measured = dict[str, Any]
Row = dict[str, Any]


def main() -> None:
    options = parse_arguments()
    measured = measured_in_time(options)
    left_out = [name for name in options.only or FIRST if name not in measured]
    rows = [row_of(name, each) for name, each in measured.items()]
    print(table(rows), flush=True)
    judged = [row["at_share_over_first"] for row in rows if row["steady"] and row["at_share_over_first"] is not None]
    value = max(judged) if judged else None
    faults = [fault for name, each in measured.items() for fault in faults_of(name, each, options.quick)]
    holds = not faults and (options.quick or value is None or value <= BAR)
    common.emit("recompute", value, "ratio", BAR, holds, {
        "rows": rows, "faults": faults, "no_time_for": left_out,
        "models": {name: {key: each[key] for key in each if key != "rounds"} for name, each in measured.items()},
        "rounds": {name: len(each["rounds"]) for name, each in measured.items()},
        "quick": options.quick, "threads": options.threads, "machine": common.machine(),
    }, unsteady=bool(left_out) or not all(row["steady"] for row in rows))


def measured_in_time(options: argparse.Namespace) -> dict[str, Measured]:
    deadline, longest_min = common.Deadline(options.minutes), 0.0
    measured: dict[str, Measured] = {}
    for name in options.only or FIRST:
        left_min = deadline.minutes_left()
        if measured and longest_min > left_min:
            common.progress(f"{name}: no time for it; --minutes gives more")
            continue
        measured[name] = measure(options, name)
        longest_min = max(longest_min, left_min - deadline.minutes_left())
    return measured


def measure(options: argparse.Namespace, name: str) -> Measured:
    flags = {"model": name, "share": FIRST[name].share, "threads": options.threads,
             "least-rounds": 1 if options.quick else LEAST_ROUNDS, "minutes": 0 if options.quick else MINUTES_OF_ROUNDS}
    command = ["tools/package.sh", os.path.relpath(options.build.resolve(), common.ROOT), "bench/recompute_models.py",
               *(f"--{flag}={value}" for flag, value in flags.items()), *(["--quick"] if options.quick else [])]
    done = subprocess.run(command, cwd=common.ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        train_runs.stop(f"bench-recompute: {name} failed ({done.returncode})")
    measured: Measured = json.loads(done.stdout.strip().splitlines()[-1])
    common.progress(words(row_of(name, measured)))
    return measured


def row_of(name: str, measured: Measured) -> Row:
    first, base, peak = FIRST[name], measured["base_bytes"], measured["peak_bytes"] - measured["base_bytes"]
    smallest = measured["budget_bytes"]["smallest"] - base
    row = {
        "model": name, "saved_mb": round(measured["saved_bytes"] / 1e6, 1), "peak_mb": round(peak / 1e6, 1),
        "smallest_mb": round(smallest / 1e6, 1), "smallest_share": round(smallest / peak, 3),
        "first_share": round(first.share, 3), "first_over_plain": first.over_plain, "first_again": first.again / 100,
        "bits": "equal" if all(measured["bits_equal"].values()) else "DIFFERENT",
        "steady": steady.is_steady(measured["plain_over_plain"]), **costs(measured, "smallest", "")}
    at_share = costs(measured, "at_share", "at_share_")
    over_plain = at_share["at_share_over_plain"]
    over_first = None if over_plain is None else round(over_plain / first.over_plain, 4)
    return row | at_share | {"at_share_over_first": over_first}


def costs(measured: Measured, side: str, prefix: str) -> Row:
    """Medians over the rounds; None where the budget was too small."""
    rounds = [done for done in measured["rounds"] if side in done]

    def middle(numbers: list[float]) -> float | None:
        return round(common.median(numbers), 4) if numbers else None

    def over(time: str, other: str) -> float | None:
        return middle([done[side][time] / done[other][time] for done in rounds])

    found = {
        "over_plain": over("cpu_s", "plain"), "over_held": over("cpu_s", "held"), "wall_over_plain": over("step_s", "plain"),
        "again": middle([done[side]["recomputed_bytes"] / done[side]["saved_bytes"] for done in rounds]),
        "operators": middle([done[side]["recomputed_operators"] for done in rounds]),
        "recompute_s": middle([done[side]["recompute_ns"] / 1e9 for done in rounds]),
        "step_s": middle([done[side]["cpu_s"] for done in rounds])}
    return {prefix + name: number for name, number in found.items()}


def faults_of(name: str, measured: Measured, quick: bool) -> list[str]:
    """What would be wrong whatever the times are. A tiny model's peaks are not the experiment's."""
    found = [f"{name}, {side}: not plain's bits" for side, equal in measured["bits_equal"].items() if not equal]
    for side, budget in measured["budget_bytes"].items():
        runs = [done[side] for done in measured["rounds"]]
        found += [f"{name}, {side}: above its budget"] * any(run["peak_bytes"] > budget for run in runs)
        found += [f"{name}, {side}: moved something"] * any(run["stored_bytes"] for run in runs)
    if "at_share" not in measured["budget_bytes"] and not quick:
        found.append(f"{name}: does not reach the experiment's peak")
    return found


def table(rows: list[Row]) -> str:
    lines = ["| " + " | ".join(COLUMNS.values()) + " |  |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in rows:
        lines.append("| " + " | ".join(cell(row, name) for name in COLUMNS) + f" | {verdict(row)} |")
    return "\n".join(lines)


def cell(row: Row, name: str) -> str:
    value = row[name]
    if value is None:
        return "-"
    if name.endswith("again"):
        return f"{value:.0%}"
    return value if isinstance(value, str) else f"{value:.0f}" if name.endswith("_mb") else f"{value:.2f}"


def verdict(row: Row) -> str:
    if row["at_share_over_first"] is None:
        return "above the experiment's peak"
    if not row["steady"]:
        return "unsteady"
    return "" if row["at_share_over_first"] <= BAR else "slower than the experiment"


def words(row: Row) -> str:
    at_share = "not reached" if row["at_share_over_plain"] is None else f"{row['at_share_over_plain']:.3f} of plain"
    return (f"{row['model']}: {row['smallest_mb']} of {row['peak_mb']} MB, {row['over_plain']:.3f} of plain's step; "
            f"at the experiment's share, {row['first_share']}: {at_share}; bits {row['bits']} {verdict(row)}".rstrip())


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=train_runs.ROOT / "build" / "torch", metavar="DIR",
                        help="where spillway is built (default build/torch)")
    parser.add_argument("--threads", type=int, default=1, metavar="N",
                        help="of torch's operators, in every run (default %(default)s, as in the experiment)")
    common.add_minutes(parser, "in all; all models take some 17")
    parser.add_argument("--only", action="append", choices=FIRST, help="of these models, one each time")
    parser.add_argument("--quick", action="store_true", help="tiny, one round: shows that all of it works")
    return parser.parse_args()


if __name__ == "__main__":
    main()
