# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The measurement of bench-record, in one process of the Python whose torch is measured. Prints one JSON line.

A step is a forward and a backward from the same weights and batch. `session.trace` records the step after the next one
and writes the file at the begin of the one after it, so the side "recorded" runs three steps a round and counts the
second. Every other side also runs one step that does not count before the one that does.
"""

import argparse
import contextlib
import gc
import hashlib
import json
import pathlib
import random
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import common
import spillway
import steady
import torch
from hook_cells import Gpt

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "peers"))
import model as peers  # noqa: E402: it lies in peers/

BUDGET = "1TiB"  # nothing has to leave
WIDTH, LAYERS = 256, 8
LEAST_ROUNDS = 20
OPTIONS: dict[str, dict[str, Any]] = {
    "off": {"recompute": "off"}, "off again": {"recompute": "off"}, "auto": {}, "recorded": {},
    "planned": {"policy": "largest_first", "host_budget": "64MiB"}}  # a plan under which all stays
STEPS_UNTIL_A_PLAN = 3

Loss = Callable[[], torch.Tensor]
Model = tuple[torch.nn.Module, Loss]


def layers(rows: int) -> Model:
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()) for _ in range(LAYERS)))
    batch = torch.randn(rows, WIDTH)
    return model, lambda: model(batch).square().mean()


def gpt_256() -> Model:
    model, tokens = Gpt(), torch.randint(512, (1, 128))
    return model, lambda: model(tokens)


def gpt_512() -> Model:
    shape = peers.Shape(layers=6, heads=6, width=192, batch=4, sequence=512, vocab=512)
    model, text = peers.Gpt(shape, lambda number, block: block), peers.text(shape, seed=0)
    return model, lambda: model(text)


MODELS: dict[str, Callable[[], Model]] = {
    "layers, 1 row": lambda: layers(1), "layers, 256 rows": lambda: layers(256), "gpt, width 256, batch 1": gpt_256,
    "gpt, sequence 512": gpt_512}


class Steps:
    """Of one model, in sessions of its own."""

    def __init__(self, made: Model, folder: str) -> None:
        self.model, self.loss = made
        self.file = pathlib.Path(folder) / "step.json"
        self.sessions = {name: spillway.session(self.model, device_budget=BUDGET, **options) for name, options in OPTIONS.items()}
        self.bits: set[str] = set()

    def timed(self, name: str) -> float:
        """Seconds of a step."""
        self.model.zero_grad()
        begin = time.perf_counter()
        with self.sessions[name]:
            loss = self.loss()
        loss.backward()
        took = time.perf_counter() - begin
        gradients = b"".join(each.grad.numpy().tobytes() for each in self.model.parameters())
        self.bits.add(hashlib.sha256(loss.detach().numpy().tobytes() + gradients).hexdigest())
        return took

    def counted(self, name: str) -> float:
        if name == "recorded":
            self.sessions[name].trace(self.file)
        self.timed(name)
        took = self.timed(name)
        if name == "recorded":
            self.timed(name)
        return took

    def expect_plan(self) -> None:
        """But where all tensors are too small for one."""
        report = self.sessions["planned"].report()
        is_planned = report["plan"]["steps"] > 0 or "all are small" in report["plan"]["refusal"]
        assert is_planned and report["stored_bytes"] == 0, report["plan"]

    def operators(self) -> int:
        """Of ATen in a step, those within others among them."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            self.timed("off")
        return sum(each.name.startswith("aten::") for each in profile.events())

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()


def measure(make: Callable[[], Model], minutes: float, folder: str) -> dict[str, Any]:
    torch.manual_seed(0)
    rounds: list[dict[str, float]] = []
    shuffled, begin = random.Random(0), time.monotonic()
    with contextlib.closing(Steps(make(), folder)) as steps:
        for name in [*OPTIONS, *["planned"] * STEPS_UNTIL_A_PLAN]:
            steps.counted(name)
        steps.expect_plan()
        while not is_enough(rounds, begin, minutes):
            rounds.append({name: steps.counted(name) for name in shuffled.sample(list(OPTIONS), len(OPTIONS))})
            gc.collect()
        return {"rounds": rounds, "operators": steps.operators(), "bits_equal": len(steps.bits) == 1}


def is_enough(rounds: list[dict[str, float]], begin: float, minutes: float) -> bool:
    is_steady = steady.is_steady([done["off again"] / done["off"] for done in rounds])
    return (is_steady and len(rounds) >= LEAST_ROUNDS) or steady.is_late(begin, len(rounds), minutes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, required=True, metavar="N", help="in all")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gc.disable()
    deadline = common.Deadline(options.minutes)
    with tempfile.TemporaryDirectory() as folder:
        found = {name: measure(make, deadline.share(len(MODELS) - number), folder)
                 for number, (name, make) in enumerate(MODELS.items())}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
