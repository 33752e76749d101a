# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The measurement of bench-states, in one process of the Python whose torch is measured. Prints one JSON line.

A step is a forward, a backward and AdamW's step of a GPT. Each side has its own copy of the model, and goes through the
same steps. The smallest budget is what `device_needed_bytes` says after three steps with room for all, and 2 % more; a
run under it has to go through.
"""

import argparse
import contextlib
import json
import pathlib
import random
import sys
import tempfile
import time
from typing import Any

import common
import spillway
import steady
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "peers"))
import model as peers  # noqa: E402: it lies in peers/

SHAPE = peers.Shape(layers=6, heads=8, width=512, batch=4, sequence=256, vocab=8192)
ROOM, MARGIN = "1TiB", 1.02
STEPS_TO_MEASURE = 3


class Side:
    """A model in training; `options` of its session, None: it has none."""

    def __init__(self, options: dict[str, Any] | None) -> None:
        torch.manual_seed(0)
        self.model = peers.Gpt(SHAPE, lambda number, block: block)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.session = None if options is None else spillway.session(self.model, **options)
        self.steps = 0
        self.losses: list[float] = []

    def step(self) -> float:
        """Its seconds."""
        text = peers.text(SHAPE, seed=self.steps)
        self.steps += 1
        begin = time.perf_counter()
        with self.session or contextlib.nullcontext():
            loss = self.model(text)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        took = time.perf_counter() - begin
        self.losses.append(loss.item())
        return took

    def trained(self) -> spillway.Report:
        """After some steps, closed."""
        assert self.session is not None
        for _ in range(STEPS_TO_MEASURE):
            self.step()
        self.session.close()
        return self.session.report()


def smallest(folder: str, states: str) -> dict[str, Any]:
    needed = Side({"device_budget": ROOM, "nvme": folder, "states": states}).trained()["device_needed_bytes"]
    budget = int(MARGIN * needed)
    side = Side({"device_budget": budget, "nvme": folder, "states": states})
    return {"needed_bytes": needed, "budget_bytes": budget, "peak_bytes": side.trained()["device_peak_bytes"], "losses": side.losses}


def is_refused(folder: str, budget: int) -> bool:
    """Whether the state that stays does not fit in what suffices where it leaves."""
    try:
        Side({"device_budget": budget, "nvme": folder}).trained()
    except (torch.OutOfMemoryError, spillway.BudgetError):
        return True
    return False


def measure(folder: str, minutes: float) -> dict[str, Any]:
    deadline = common.Deadline(minutes)
    stays, leaves = smallest(folder, "stay"), smallest(folder, "optimizer")
    common.progress(f"smallest budget: {stays['budget_bytes']:,} bytes with the state on the device, {leaves['budget_bytes']:,} without")
    sides = {"plain": Side(None), "plain again": Side(None),
             "stays": Side({"device_budget": stays["budget_bytes"], "nvme": folder}),
             "leaves, same budget": Side({"device_budget": stays["budget_bytes"], "nvme": folder, "states": "optimizer"}),
             "leaves": Side({"device_budget": leaves["budget_bytes"], "nvme": folder, "states": "optimizer"})}
    for side in sides.values():
        side.step()  # AdamW makes its state
        side.step()
    rounds: list[dict[str, float]] = []
    shuffled, begin = random.Random(0), time.monotonic()
    while not rounds or not (steady.is_steady([done["plain again"] / done["plain"] for done in rounds])
                             or steady.is_late(begin, len(rounds), deadline.minutes_left() + (time.monotonic() - begin) / 60)):
        rounds.append({name: sides[name].step() for name in shuffled.sample(list(sides), len(sides))})
    plain = sides["plain"].losses
    reports = {name: side.session.report() for name, side in sides.items() if side.session is not None}
    return {"parameter_bytes": sum(parameter.nbytes for parameter in sides["plain"].model.parameters()), "stays": stays, "leaves": leaves,
            "is_refused": is_refused(folder, leaves["budget_bytes"]), "rounds": rounds,
            "losses_equal": all(side.losses == plain for side in sides.values())
            and all(each["losses"] == plain[:STEPS_TO_MEASURE] for each in (stays, leaves)),
            "moved_bytes_a_step": {name: round((report["stored_bytes"] + report["loaded_bytes"]) / sides[name].steps)
                                   for name, report in reports.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, required=True, metavar="N", help="in all")
    parser.add_argument("--nvme", required=True, metavar="DIR", help="where saved tensors and state wait")
    options = parser.parse_args()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory(dir=options.nvme) as folder:
        print(json.dumps(measure(folder, options.minutes)))


if __name__ == "__main__":
    main()
