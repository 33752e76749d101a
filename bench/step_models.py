# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`bench-step --models`: six models in Python under two budgets each, beside the least that such a step could take.

A budget is the floor and a share of the rest: the floor is the step's peak with everything that can leave away except
while used, the rest what that leaves of the peak with nothing moved. Each model runs in a process of its own
(step_models_run.py): plain twice, a session that moves nothing ("held"), a session of each budget, and the drive, in
rounds that shuffle them. A row's limit is the longer of held's step and of what the drive takes for what the step
wrote and read, one after the other: a drive of one machine's virtual disk carries no more in both directions at once
than in one. What a step takes beyond its limit is ours. Ratios are medians over the rounds, each of one round's times.
A Markdown table, then one JSON line. value = the largest step / limit of the rows that are judged: those of models
whose plain beside plain is steady (steady.py). Holds when it is at most 1.05, every loss and gradient has plain's bits,
held moved nothing, and the others moved something within their budgets.
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

BAR = 1.05
SHARES = (1 / 2, 1 / 3)
MODELS = {"resnet50": "ResNet-50", "efficientnet_b0": "EfficientNet-B0", "regnet_y_400mf": "RegNet-Y-400MF",
          "swin_t": "Swin-T", "gpt_64": "GPT, sequence 64", "gpt_512": "GPT, sequence 512"}
LEAST_ROUNDS, MINUTES = 5, 3
DRIVE_BYTES = 1 << 30
QUICK = {"shares": SHARES[:1], "rounds": 1, "drive_bytes": 1 << 26, "minutes": 0}
COLUMNS = {
    "model": "model", "share": "stays", "plain_s": "plain, s", "held_s": "held, s", "step_s": "step, s",
    "over_plain": "/ plain", "over_held": "/ held", "least_gb": "has to leave, GB", "written_gb": "written, GB",
    "read_gb": "read, GB", "write_gb_per_s": "drive writes, GB/s", "read_gb_per_s": "reads, GB/s",
    "limit_s": "limit, s", "over_limit": "/ limit", "stall_store_s": "waits for stores, s",
    "stall_load_s": "for loads, s"}

Measured = dict[str, Any]
Row = dict[str, Any]


def main(options: argparse.Namespace) -> None:
    names = options.only or list(MODELS)
    with train_runs.scratch(options) as folder:
        measured = {name: measure(options, name, folder) for name in names}
    rows = [row for name, each in measured.items() for row in rows_of(name, each)]
    print(table(rows), flush=True)
    judged = [row["over_limit"] for row in rows if row["steady"]]
    value = max(judged) if judged else None
    faults = [fault for name, each in measured.items() for fault in faults_of(name, each)]
    common.emit("step_models", value, "ratio", BAR, not faults and (value is None or value <= BAR), {
        "rows": rows, "faults": faults,
        "models": {name: {key: each[key] for key in each if key not in ("rounds", "bits_equal")}
                   for name, each in measured.items()},
        "rounds": {name: len(each["rounds"]) for name, each in measured.items()},
        "quick": options.quick, "threads": options.threads, "machine": common.machine(),
    }, unsteady=len(judged) < len(rows))


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", action="store_true", help="six models in Python, each beside what its drive allows")
    parser.add_argument("--only", action="append", choices=MODELS, help="with --models: of these, one each time")
    parser.add_argument("--quick", action="store_true",
                        help="with --models: tiny, one round: shows that all of it works")


def measure(options: argparse.Namespace, name: str, folder: str) -> Measured:
    quick = QUICK if options.quick else {}
    build = options.build.resolve()
    drive = build / "bench" / "nvme_bench"
    if not drive.exists():
        train_runs.stop(f"{drive} is not built; `make build` builds it")
    flags = {"model": name, "shares": json.dumps(quick.get("shares", SHARES)), "folder": pathlib.Path(folder).resolve(),
             "drive": drive, "drive-bytes": quick.get("drive_bytes", DRIVE_BYTES), "threads": options.threads,
             "least-rounds": quick.get("rounds", LEAST_ROUNDS), "minutes": quick.get("minutes", options.minutes)}
    command = ["tools/package.sh", os.path.relpath(build, common.ROOT), "bench/step_models_run.py",
               *(f"--{flag}={value}" for flag, value in flags.items()), *(["--quick"] if options.quick else [])]
    done = subprocess.run(command, cwd=common.ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        train_runs.stop(f"bench-step --models: {name} failed ({done.returncode})")
    measured: Measured = json.loads(done.stdout.strip().splitlines()[-1])
    for row in rows_of(name, measured):
        common.progress(words(row))
    return measured


def rows_of(name: str, measured: Measured) -> list[Row]:
    """One of each budget."""
    return [{"model": MODELS[name], "share": round(float(share), 4), "budget_bytes": budget,
             "least_gb": round((measured["peak_bytes"] - budget) / 1e9, 3),
             **medians([times(done, share) for done in measured["rounds"]]),
             "bits_equal": measured["bits_equal"][share], "steady": steady.is_steady(measured["plain_over_plain"])}
            for share, budget in measured["budget_bytes"].items()]


def times(done: dict[str, Any], share: str) -> dict[str, float]:
    """Of one round."""
    plain, held, capped, drive = done["plain"], done["held"], done[share], done["drive"]
    write_s = capped["written_bytes"] / drive["write_gb_per_s"] / 1e9
    read_s = capped["read_bytes"] / drive["read_gb_per_s"] / 1e9
    limit_s = max(held["step_s"], write_s + read_s)
    backward_s = held["step_s"] - held["forward_s"]
    return {
        "plain_s": plain["step_s"], "held_s": held["step_s"], "step_s": capped["step_s"],
        "over_plain": capped["step_s"] / plain["step_s"], "over_held": capped["step_s"] / held["step_s"],
        "written_gb": capped["written_bytes"] / 1e9, "read_gb": capped["read_bytes"] / 1e9,
        "write_gb_per_s": drive["write_gb_per_s"], "read_gb_per_s": drive["read_gb_per_s"], "drive_s": write_s + read_s,
        "limit_s": limit_s, "over_limit": capped["step_s"] / limit_s,
        "limit_by_phase_s": max(held["forward_s"], write_s) + max(backward_s, read_s),
        "stall_store_s": capped["stall_store_ns"] / 1e9, "stall_load_s": capped["stall_load_ns"] / 1e9,
        "making_room_s": capped["admission_ns"] / 1e9, "store_busy_s": capped["nvme_store_busy_ns"] / 1e9,
        "load_busy_s": capped["nvme_load_busy_ns"] / 1e9, "held_cpu_s": held["cpu_s"], "cpu_s": capped["cpu_s"],
        "forward_over_held": capped["forward_s"] / held["forward_s"],
        "backward_over_held": (capped["step_s"] - capped["forward_s"]) / backward_s}


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(common.median([each[name] for each in rounds]), 4) for name in rounds[0]}


def faults_of(name: str, measured: Measured) -> list[str]:
    """What would be wrong whatever the times are."""
    different = [side for side, equal in measured["bits_equal"].items() if not equal]
    found = [f"{name}, {side}: not plain's bits" for side in different]
    for share, budget in measured["budget_bytes"].items():
        runs = [done[share] for done in measured["rounds"]]
        found += [f"{name}, {share}: above its budget"] * any(run["peak_bytes"] > budget for run in runs)
        found += [f"{name}, {share}: moved nothing"] * any(run["written_bytes"] == 0 for run in runs)
    moved = any(done["held"]["written_bytes"] for done in measured["rounds"])
    return found + [f"{name}: held moved something"] * moved


def table(rows: list[Row]) -> str:
    lines = ["| " + " | ".join(COLUMNS.values()) + " |  |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in rows:
        lines.append("| " + " | ".join(cell(row[name]) for name in COLUMNS) + f" | {verdict(row)} |")
    return "\n".join(lines)


def cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.3g}" if value < 1 else f"{value:.2f}"


def verdict(row: Row) -> str:
    if not row["steady"]:
        return "unsteady"
    return "" if row["over_limit"] <= BAR else "above the bar"


def words(row: Row) -> str:
    return (f"{row['model']}, {row['share']:.2f} of the rest stays: {row['step_s']:.3f} s, {row['over_plain']:.3f} of "
            f"plain, {row['over_limit']:.3f} of the limit, {row['limit_s']:.3f} s {verdict(row)}".rstrip())
