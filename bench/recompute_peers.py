#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-recompute-peers: making again, moving and both, beside what PyTorch has, on four models.

GPT-2, LLaMA, a vision transformer and ResNet-18 with random weights, small, each in a process of its own
(recompute_peers_run.py). Peers: `torch.utils.checkpoint` of every and of every second block, selective checkpoint that
saves products, convolutions and attention, and torch_remat. Spillway's sides get the peak of `checkpoint` of every block as
their budget: what makes blocks again (`recompute_all`, `sqrt_checkpoint`, `rotor`), what has no drive (`online` and `auto`, which then
make again what costs least), what only moves (`move`: `online` without recompute), and what does both (`str`, `auto`); the last three also with a drive of `--slow` bytes a second. A peak is what
a step takes beyond weights and buffers, over plain's. A time is a step's, over plain's of the same round, the median of
the rounds. Losses, gradients, buffers and random states are compared with plain's bit by bit.
Beside the peers' peaks: the smallest budget in which Spillway trains without a drive (`online`), searched by halving.
A Markdown table a model, then one JSON line. value = the largest over the models of the quickest Spillway side within the
budget, drive at its own rate, over `checkpoint`; models whose plain beside plain is not steady (steady.py) are not judged.
Holds when it is at most 1 and every side of Spillway has plain's bits and stays within its budget.

With --half: the budget is half of plain's peak, nothing runs on a slow drive, and value = the largest over GPT-2 and LLaMA
of the quickest side that makes again, over plain; its bar is 1.1.
"""

import argparse
import json
import os
import pathlib
import subprocess
from typing import Any

import common
import steady
import train_runs

BAR, HALF_BAR = 1.0, 1.1
MODELS = ("gpt2-sdpa-drop", "llama-sdpa", "vit-drop", "resnet18")
HALF_MODELS = MODELS[:2]  # whose time is judged with --half
PEERS = ("no session", "plain", "checkpoint", "checkpoint_2nd", "sac", "torch_remat")
AGAIN = ("recompute_all", "sqrt_checkpoint", "rotor", "online, no drive", "auto, no drive")
MOVES = ("move", "str", "auto")
SIDES = (*PEERS, *AGAIN, *MOVES, *(f"{name}, slow" for name in MOVES))
LEAST_ROUNDS, SLOW = 5, "150MB"
COLUMNS = {"side": "side", "budget_mb": "budget, MB", "peak_mb": "peak, MB", "peak_share": "/ plain", "over_plain": "step / plain",
           "again_mb": "made again, MB", "moved_mb": "moved, MB", "bits": "bits"}

Measured = dict[str, Any]
Row = dict[str, Any]


def main() -> None:
    options = parse_arguments()
    deadline, names = common.Deadline(options.minutes), options.only or MODELS
    with train_runs.scratch(options) as folder:
        measured = {name: measure(options, name, folder, deadline.share(len(names) - number)) for number, name in enumerate(names)}
    rows = {name: rows_of(each) for name, each in measured.items()}
    smallest = {name: smallest_of(each, rows[name]) for name, each in measured.items()}
    for name, each in measured.items():
        print(f"{name}{'' if is_steady(each) else ' (unsteady)'}:\n\n{table(rows[name])}\n\n{words(smallest[name])}\n", flush=True)
    compared, judged, bar = (again_over_plain, HALF_MODELS, HALF_BAR) if options.half else (over_checkpoint, names, BAR)
    ratios = {name: compared(each) for name, each in rows.items()}
    value = max((ratio for name, ratio in ratios.items() if ratio is not None and name in judged and is_steady(measured[name])),
                default=None)
    faults = [fault for name, each in measured.items() for fault in faults_of(name, each)]
    holds = not faults and (options.quick or value is None or value <= bar)
    common.emit("recompute-peers", value, "ratio", bar, holds, {
        "rows": rows, "smallest": smallest, "faults": faults, compared.__name__: ratios,
        "sides": {name: each["sides"] for name, each in measured.items()},
        "plain_over_plain": {name: common.spread(each["plain_over_plain"]) for name, each in measured.items()},
        "rounds": {name: len(each["rounds"]) for name, each in measured.items()},
        "quick": options.quick, "threads": options.threads, "slow": options.slow, "machine": common.machine(),
    }, unsteady=not all(is_steady(each) for each in measured.values()))


def measure(options: argparse.Namespace, name: str, folder: str, minutes: float) -> Measured:
    flags = {"model": name, "folder": folder, "slow": options.slow, "threads": options.threads,
             "least-rounds": 1 if options.quick else LEAST_ROUNDS, "minutes": 0 if options.quick else minutes}
    command = ["tools/package.sh", os.path.relpath(options.build.resolve(), common.ROOT), "bench/recompute_peers_run.py",
               *(f"--{flag}={value}" for flag, value in flags.items()), *(["--quick"] if options.quick else []),
               *(["--half"] if options.half else [])]
    done = subprocess.run(command, cwd=common.ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        train_runs.stop(f"bench-recompute-peers: {name} failed ({done.returncode})")
    measured: Measured = json.loads(done.stdout.strip().splitlines()[-1])
    return measured


def is_steady(measured: Measured) -> bool:
    return steady.is_steady(measured["plain_over_plain"])


def rows_of(measured: Measured) -> dict[str, Row]:
    """By side. What did not run is a row that says why."""
    rows = {}
    for name in (name for name in SIDES if name in PEERS or name in measured["sides"]):
        note = measured["sides"].get(name, {"budget_bytes": None, "refusal": ""})
        runs = [done[name] for done in measured["rounds"] if name in done]
        rows[name] = row_of(name, measured, runs) | {"side": name, "budget_mb": megabytes(note["budget_bytes"], measured),
                                                     "why": note["refusal"]}
    return rows


def row_of(name: str, measured: Measured, runs: list[dict[str, Any]]) -> Row:
    if not runs:
        return {column: None for column in COLUMNS} | {"bits": "did not run"}
    peak = max(run["peak_bytes"] for run in runs) if "peak_bytes" in runs[0] else None
    plain = measured["peak_bytes"] - measured["base_bytes"]
    beyond = None if peak is None else peak - measured["base_bytes"]
    rounds = [done for done in measured["rounds"] if name in done]

    def over(time: str) -> float:
        return round(common.median([done[name][time] / done["plain"][time] for done in rounds]), 4)

    def middle(*names: str) -> float:
        return round(common.median([sum(run.get(each, 0) for each in names) for run in runs]) / 1e6, 1)

    return {
        "peak_mb": megabytes(peak, measured), "peak_share": None if beyond is None else round(beyond / plain, 3),
        "over_plain": over("step_s"), "cpu_over_plain": over("cpu_s"), "step_s": common.spread([run["step_s"] for run in runs]),
        "again_mb": middle("recomputed_bytes"), "moved_mb": middle("stored_bytes"),
        "bits": "differ: " + ", ".join(measured["differs"][name]) if measured["differs"][name] else "equal"}


def megabytes(count: int | None, measured: Measured) -> float | None:
    """Beyond weights and buffers."""
    return None if count is None else round((count - measured["base_bytes"]) / 1e6, 1)


def smallest_of(measured: Measured, rows: dict[str, Row]) -> dict[str, float | None]:
    """Of each peer its peak; of Spillway the smallest budget without a drive in which steps end (`online`)."""
    return {"spillway": megabytes(measured["smallest_bytes"], measured), **{name: rows[name]["peak_mb"] for name in PEERS[1:]}}


def words(smallest: dict[str, float | None]) -> str:
    return "The smallest budget, MB: " + ", ".join(f"{name} {value}" for name, value in smallest.items())


def over_checkpoint(rows: dict[str, Row]) -> float | None:
    """The quickest of Spillway's sides within the peak of checkpoint, over checkpoint's step."""
    most = rows["checkpoint"]["peak_mb"]
    times = [row["over_plain"] for name in (*AGAIN, *MOVES) if (row := rows[name])["budget_mb"] is not None and row["budget_mb"] <= most]
    return round(min(times) / rows["checkpoint"]["over_plain"], 4) if times else None


def again_over_plain(rows: dict[str, Row]) -> float | None:
    """The quickest of those that make again, within the smallest budget of all, over plain's step."""
    least = min((rows[name]["budget_mb"] for name in AGAIN if rows[name]["budget_mb"] is not None), default=None)
    return min((rows[name]["over_plain"] for name in AGAIN if rows[name]["budget_mb"] == least), default=None) if least else None


def faults_of(name: str, measured: Measured) -> list[str]:
    """What would be wrong whatever the times are."""
    found = []
    for side, note in measured["sides"].items():
        runs = [done[side] for done in measured["rounds"] if side in done]
        if runs and measured["differs"][side]:
            found.append(f"{name}, {side}: not plain's {', '.join(measured['differs'][side])}")
        if any(run["peak_bytes"] > note["budget_bytes"] for run in runs):
            found.append(f"{name}, {side}: above its budget")
    return found


def table(rows: dict[str, Row]) -> str:
    lines = ["| " + " | ".join(COLUMNS.values()) + " |  |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += ["| " + " | ".join(cell(row, name) for name in COLUMNS) + f" | {row['why']} |" for row in rows.values()]
    return "\n".join(lines)


def cell(row: Row, name: str) -> str:
    value = row[name]
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.0f}" if name.endswith("_mb") else f"{value:.2f}"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=train_runs.ROOT / "build" / "torch", metavar="DIR",
                        help="where spillway is built (default build/torch)")
    parser.add_argument("--folder", type=pathlib.Path, metavar="DIR", help="on the drive that is to be used (default: the build's)")
    parser.add_argument("--slow", default=SLOW, metavar="RATE", help="bytes a second of the slow drive (default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of torch's operators, in every run (default %(default)s)")
    common.add_minutes(parser, "in all, of each model as much")
    parser.add_argument("--only", action="append", choices=MODELS, help="of these models, one each time")
    parser.add_argument("--half", action="store_true", help="half of plain's peak as the budget")
    parser.add_argument("--quick", action="store_true", help="tiny, one round: shows that all of it works")
    return parser.parse_args()


if __name__ == "__main__":
    main()
