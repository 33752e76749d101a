# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""One model of bench-compare-real, bench-foretell or bench-tba in a process of its own; prints one JSON line.

`spillway.compare` foretells every policy under each budget from one recorded step and the probed drive. Then each policy
that runs gets a session of its own, and one that moves nothing ("held") is beside them: plain, but on their allocator. After
the steps in which a session records and plans, rounds run plain twice and one step of each session, in an order of their
own, so that what else the machine does falls on all. A step is a forward and a
backward from the same weights, buffers, batch and random state each time: its loss, gradients and buffers have plain's bits.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import common
import spillway
import torch
from recompute_models import FULL, QUICK, Bits, Training, bert, gpt2, llama, t5, vision, vit
from sides import Run, Side, measure_model, plain_over_plain

# Each some 0.2 s a step on one core, and some 40 MB saved.
MODELS = {"gpt2": gpt2(dropout=0.0), "llama": llama(), "vit": vit, "resnet18": vision("resnet18", 12, 96), "t5": t5, "bert": bert}
SIZE = FULL._replace(lines=1)
UNLIMITED = "1TiB"
WARM_UP_STEPS = 3  # the second is recorded, the third plans
SEARCH = {"swapadvisor": "swapadvisor:generations=2,population=8"}  # seconds a plan, not minutes
QUICK_POLICIES = ("online", "te", "rotor", "vdnn_conv")

Row = dict[str, Any]


class Opened(NamedTuple):
    row: Row
    side: Side


def policies(options: argparse.Namespace) -> list[str]:
    """Those that are asked for; else all but `keep_all` and those with a codec."""
    if options.policies:
        return list(options.policies)
    listed = [policy.name for policy in spillway.policies() if policy.name != "keep_all" and not policy.lossy]
    return [SEARCH.get(name, name) for name in listed if not options.quick or name in QUICK_POLICIES]


def foretold(training: Training, options: argparse.Namespace) -> tuple[Row, list[Row]]:
    """What the step takes with nothing moved, and a row for each policy and budget."""
    machine = spillway.probe(training.model, nvme=options.folder, nvme_budget=options.nvme_budget)
    bare = spillway.compare(training.model, training.loss, policies=["online"], budgets=[UNLIMITED], machine=machine)
    budgets = [bare.floor_bytes + int(share * (bare.peak_bytes - bare.floor_bytes)) for share in options.shares]
    told = spillway.compare(training.model, training.loss, policies=policies(options), budgets=budgets, machine=machine)
    rows = [{
        "policy": row["policy"].partition(":")[0], "named": row["policy"], "share": options.shares[budgets.index(row["device_bytes"])],
        "budget_bytes": row["device_bytes"], "refusal": row["refusal"],
        "foretold": row["step_ns"] / told.compute_ns if not row["refusal"] else None,
        "foretold_peak_bytes": row["peak_bytes"] if not row["refusal"] else None} for row in told.rows]
    rates = {f"{link['from']}_{link['to']}_gb_per_s": round(link["rate_bytes_per_s"] / 1e9, 3) for link in machine["links"]}
    model_bytes = sum(each.nbytes for each in (*training.model.parameters(), *training.model.buffers()))
    return {"compute_s": told.compute_ns / 1e9, "peak_bytes": told.peak_bytes, "floor_bytes": told.floor_bytes,
            "model_bytes": model_bytes, **rates}, rows


def counted(report: Mapping[str, Any]) -> dict[str, int]:
    return {name: report[name] for name in ("stored_bytes", "recomputed_bytes")}


def opened(training: Training, options: argparse.Namespace, row: Row) -> Opened | None:
    """After the steps in which it plans. None: it does not run, and the row says why."""
    training.begin()
    session = None
    try:
        session = spillway.session(training.model, device_budget=row["budget_bytes"], policy=row["named"], nvme=options.folder,
                                   nvme_budget=options.nvme_budget)
        side = Side(training, session, counted)
        for _ in range(WARM_UP_STEPS):
            side.run()
        plan = session.report()["plan"] or {}
        row["refusal"] = plan.get("refusal", "")
        if not row["refusal"]:
            return Opened(row, side)
    except (torch.OutOfMemoryError, spillway.Error) as error:
        row["refusal"] = str(error).splitlines()[0]
    if session is not None:
        session.close()
    return None


def rounds_of(sides: dict[str, Side], options: argparse.Namespace, end: float) -> Iterator[tuple[dict[str, Run], dict[str, Bits]]]:
    """Each side once, in an order of its own: at least `least_rounds`, and further ones while there is time for one."""
    shuffled, took, count = random.Random(0), 0.0, 0
    while count < options.least_rounds or time.monotonic() + took < end:
        begin = time.monotonic()
        done = {name: sides[name].run() for name in shuffled.sample(list(sides), len(sides))}
        took, count = time.monotonic() - begin, count + 1
        yield {name: run for name, (run, _) in done.items()}, {name: bits for name, (_, bits) in done.items()}


def held_side(training: Training) -> Side:
    """Moves and drops nothing."""
    training.begin()
    side = Side(training, spillway.session(training.model, device_budget=UNLIMITED, policy="keep_all", recompute="off"), counted)
    for _ in range(WARM_UP_STEPS):
        side.run()
    return side


def run_budget(training: Training, options: argparse.Namespace, rows: list[Row], end: float) -> list[float]:
    """Measures the rows, which are of one budget. Returns plain over plain of each round."""
    sessions = {row["policy"]: each for row in rows if not row["refusal"] and (each := opened(training, options, row))}
    plain, held = Side(training, None, counted), held_side(training)
    sides = {"plain": plain, "plain again": plain, "held": held} | {name: each.side for name, each in sessions.items()}
    training.begin()
    plain.run()
    rounds: list[dict[str, Run]] = []
    for done, bits in rounds_of(sides, options, end):
        rounds.append(done)
        for name, each in sessions.items():
            each.row["bits_equal"] = each.row.get("bits_equal", True) and bits[name] == bits["plain"]
    held.session.close()
    for name, each in sessions.items():
        report = each.side.session.report()
        plan = report["plan"] or {}
        each.row.update(
            measured=over_plain(rounds, name, "step_s"), measured_cpu=over_plain(rounds, name, "cpu_s"),
            measured_over_held=quickest(rounds, name) / quickest(rounds, "held"), rounds=len(rounds),
            measured_s=quickest(rounds, name), own_foretold_s=plan.get("foretold_step_ns", 0) / 1e9,
            own_foretold_peak_bytes=plan.get("foretold_peak_bytes", 0),
            measured_peak_bytes=plan.get("peak_bytes") or report["device_peak_bytes"],
            stored_bytes=rounds[-1][name]["stored_bytes"], recomputed_bytes=rounds[-1][name]["recomputed_bytes"])
        each.side.session.close()
    return plain_over_plain(rounds, "step_s")


def quickest(rounds: list[dict[str, Run]], name: str) -> float:
    """Seconds: what else runs on the machine only adds to a step."""
    return min(done[name]["step_s"] for done in rounds)


def over_plain(rounds: list[dict[str, Run]], name: str, clock: str) -> float:
    """The quickest step over plain's quickest: what else runs on the machine only adds to a step."""
    return min(done[name][clock] for done in rounds) / min(min(done["plain"][clock], done["plain again"][clock]) for done in rounds)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    begin = time.monotonic()
    training = Training(MODELS[options.model], QUICK if options.quick else SIZE)
    found, rows = foretold(training, options)
    ratios: list[float] = []
    for number, share in enumerate(options.shares, 1):
        of_share = [row for row in rows if row["share"] == share]
        ratios += run_budget(training, options, of_share, begin + 60 * options.minutes * number / len(options.shares))
        told = ", ".join(f"{row['policy']} {row['measured']:.2f} ({row['foretold']:.2f})" for row in of_share if "measured" in row)
        common.progress(f"{options.model} at {share:g}, {time.monotonic() - begin:.0f} s: {told}")
    return {"model": options.model, **found, "plain_over_plain": ratios, "rows": rows}


if __name__ == "__main__":
    measure_model(__doc__, MODELS, {
        "--shares": {"type": json.loads, "required": True, "help": "of what can leave, how much stays"},
        "--folder": {"required": True, "help": "on the drive that tensors go to"},
        "--policies": {"type": json.loads, "default": [], "help": "JSON: a list of names [all]"},
        "--nvme-budget": {"default": "1GiB", "help": "of each session"},
    }, measure)
