# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""One model of bench-recompute-peers in a process of its own; prints one JSON line.

Models and steps are those of bench-recompute (recompute_models.py), with half of its lines. Every side but `no session` runs in a session of its
own, so all of them allocate from the same arena and their peaks are counted in the same way; those of plain and of the
peers move nothing and drop nothing. A peer wraps the model's blocks for its steps alone. Spillway's sides get the peak of
`checkpoint`, or half of plain's, as their budget; where a step does not end in it, more, up to plain's peak (`budget_bytes` tells). Each side
has warm-up steps of its own, in which a policy sees the step and makes its plan. Then each round runs all sides once, in
an order of its own.
"""

import argparse
import contextlib
import pathlib
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import common
import recompute_models
import spillway
import torch
from recompute_models import UNLIMITED, Bits, Training
from sides import Run, Side, is_enough, measure_model, plain_over_plain

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "peers"))
import systems  # noqa: E402: it lies in peers/

Wraps = Callable[[int, torch.nn.Module], Any]  # as in peers/systems.py

BLOCKS: dict[str, Callable[[torch.nn.Module], Iterable[torch.nn.Module]]] = {
    "gpt2-sdpa-drop": lambda model: model.transformer.h,
    "llama-sdpa": lambda model: model.model.layers,
    "vit-drop": lambda model: model.encoder.layers,
    "resnet18": lambda model: [block for stage in (model.layer1, model.layer2, model.layer3, model.layer4) for block in stage],
}
PEERS: dict[str, Wraps] = {
    "plain": systems.plain, "plain again": systems.plain, "checkpoint": systems.checkpoint_every,
    "checkpoint_2nd": systems.checkpoint_second, "sac": systems.selective, "torch_remat": systems.remat}


class How(NamedTuple):
    """What a session of ours is opened with."""
    policy: str
    recompute: str = "auto"
    drive: str = "fast"  # as it is; "slow": at the rate of the flag; "": none


# The drive of the first three is for the steps before the plan, and for masks that are not made again.
OURS = {
    "recompute_all": How("recompute_all"), "sqrt_checkpoint": How("sqrt_checkpoint"), "rotor": How("rotor"),
    "online, no drive": How("online", drive=""), "auto, no drive": How("auto", drive=""),
    "move": How("online", "off"), "str": How("str"), "auto": How("auto"),
    "move, slow": How("online", "off", "slow"), "str, slow": How("str", drive="slow"),
    "auto, slow": How("auto", drive="slow")}
HOLDS = How("keep_all", "off", "")

SMALL = recompute_models.FULL._replace(lines=2)  # eighteen sides take their time
WARM_UP_STEPS = 5  # a plan is made of the third and runs from the fourth on
PEERS_WARM_UP_STEPS = 2
BUDGETS = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0)  # of the first one, beyond weights, in turns
COUNTED = ("recomputed_bytes", "recomputed_operators", "recompute_ns", "saved_bytes", "stored_bytes", "loaded_bytes")


class Turn(Side):
    """A side whose blocks are wrapped for its own steps."""

    def __init__(self, training: Training, session: spillway.Session | None, wraps: Wraps, blocks: list[torch.nn.Module]) -> None:
        super().__init__(training, session, counted)
        self.wraps, self.blocks = wraps, blocks

    def run(self) -> tuple[Run, Any]:
        with wrapped(self.blocks, self.wraps):
            run, bits = super().run()
        if self.session is not None and (plan := self.session.report()["plan"]) is not None and plan["steps"]:
            run["peak_bytes"] = plan["peak_bytes"]  # without the steps before the plan
        return run, bits


@contextlib.contextmanager
def wrapped(blocks: list[torch.nn.Module], wraps: Wraps) -> Iterator[None]:
    """The blocks' forwards, called as `wraps` calls a block."""
    for number, block in enumerate(blocks):
        if wraps is not systems.plain:
            block.forward = wraps(number, block.forward)
    try:
        yield
    finally:
        for block in blocks:
            block.__dict__.pop("forward", None)


def counted(report: Mapping[str, Any]) -> dict[str, int]:
    return {name: report[name] for name in COUNTED}


class Sides:
    """All that run, warm, and what was found out about them on the way."""

    def __init__(self, training: Training, options: argparse.Namespace) -> None:
        self.training, self.options = training, options
        self.blocks = list(BLOCKS[options.model](training.model))
        self.all: dict[str, Turn] = {"no session": Turn(training, None, systems.plain, self.blocks)}
        self.notes: dict[str, dict[str, Any]] = {}

    def opened(self, how: How, budget: int | str) -> spillway.Session:
        """Without gradients: they do not count twice."""
        self.training.begin()
        drive = {"nvme": self.options.folder} if how.drive else {}
        drive |= {"nvme_rate": self.options.slow} if how.drive == "slow" else {}
        return spillway.session(self.training.model, device_budget=budget, policy=how.policy, recompute=how.recompute, **drive)

    def add_peers(self) -> None:
        for name, wraps in PEERS.items():
            side = Turn(self.training, self.opened(HOLDS, UNLIMITED), wraps, self.blocks)
            for _ in range(PEERS_WARM_UP_STEPS):
                side.run()
            self.all[name] = side

    def add_ours(self, base: int, first: int, most: int) -> None:
        """Each in the first budget, from `first` on, in which its plan fits and its steps end."""
        for name, how in OURS.items():
            if self.options.half and how.drive == "slow":
                continue
            self.notes[name] = {"budget_bytes": None, "refusal": ""}
            for share in BUDGETS:
                budget = min(base + int(share * (first - base)), most)
                side, why = self.warm(how, budget)
                common.progress(f"{self.options.model}: {name} in {budget} bytes: {why or 'runs'}")
                if side is not None:
                    self.all[name] = side
                    self.notes[name] = {"budget_bytes": budget, "refusal": ""}
                    break
                self.notes[name]["refusal"] = why
                if budget == most:
                    break

    def warm(self, how: How, budget: int) -> tuple[Turn | None, str]:
        """None: why there is no plan, or no step."""
        side = Turn(self.training, self.opened(how, budget), systems.plain, self.blocks)
        try:
            for _ in range(WARM_UP_STEPS):
                side.run()
            plan = side.session.report()["plan"]
            why = plan["refusal"] if plan is not None else ""
        except (torch.OutOfMemoryError, spillway.BudgetError) as error:
            why = str(error).splitlines()[0].split(";")[0]
        if why:
            side.session.close()
        return (None, why) if why else (side, "")


def sides_of(training: Training, options: argparse.Namespace) -> tuple[Sides, dict[str, Any]]:
    sides = Sides(training, options)
    with contextlib.closing(sides.opened(HOLDS, UNLIMITED)) as session, session:
        base = session.report()["device_bytes"]
    sides.all["no session"].run()
    sides.add_peers()
    peaks = {name: sides.all[name].session.report()["device_peak_bytes"] for name in PEERS}
    half = base + (peaks["plain"] - base) // 2
    sides.add_ours(base, half if options.half else peaks["checkpoint"], peaks["plain"])
    smallest = recompute_models.Search(training, options.model).smallest(base, peaks["plain"])
    return sides, {"base_bytes": base, "peak_bytes": peaks["plain"], "smallest_bytes": smallest, "sides": sides.notes}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    begin = time.monotonic()
    training = Training(recompute_models.MODELS[options.model], recompute_models.QUICK if options.quick else SMALL)
    sides, found = sides_of(training, options)
    shuffled = random.Random(0)
    options.minutes -= (time.monotonic() - begin) / 60
    begin = time.monotonic()
    rounds: list[dict[str, Run]] = []
    every_bits: dict[str, set[Bits]] = {name: set() for name in sides.all}
    while not is_enough(options, rounds, begin, "step_s"):
        done: dict[str, Run] = {}
        for name in shuffled.sample(list(sides.all), len(sides.all)):
            done[name], bits = sides.all[name].run()
            every_bits[name].add(bits)
        rounds.append(done)
        steps = ", ".join(f"{name} {run['step_s']:.3f} s" for name, run in done.items())
        common.progress(f"{options.model}, round {len(rounds)}: {steps}")
    [plain] = every_bits["no session"]
    found["differs"] = {name: differs(bits, plain) for name, bits in every_bits.items()}
    return found | {"rounds": rounds, "plain_over_plain": plain_over_plain(rounds, "step_s")}


def differs(found: set[Bits], plain: Bits) -> list[str]:
    """What of a step's bits is not plain's."""
    return [field for field in Bits._fields if any(getattr(bits, field) != getattr(plain, field) for bits in found)]


if __name__ == "__main__":
    measure_model(__doc__, BLOCKS, {
        "--folder": {"required": True, "help": "on a drive, for what is moved"},
        "--slow": {"required": True, "help": "bytes a second of the slow drive"},
        "--half": {"action": "store_true", "help": "half of plain's peak as the budget"},
    }, measure)
