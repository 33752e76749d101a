# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""One model of `bench-step --models` in a process of its own; prints one JSON line.

A step is a forward and a backward from the same weights, batch and random state each time, so every loss and every
gradient has plain's bits. The largest peak is that of a session that moves nothing, and the floor what its report says
would have sufficed: everything that can leave is away except while used. A step in that budget, of which nothing else
is taken, shows that it does; where it does not, 2 % are added until one does. Each round runs all sides once, in an
order of its own, and the drive with nothing else: a fresh file is written and read back, as a session's are.
"""

import argparse
import contextlib
import hashlib
import json
import pathlib
import random
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import common
import spillway
import torch
import train_runs
from sides import Run, Side, cpu_seconds, is_enough, measure_model, plain_over_plain
from torch.nn import functional

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "peers"))
import model as peers  # noqa: E402: it lies in peers/

UNLIMITED = "1TiB"
WARM_UP_STEPS = 2  # a session knows from the first what the second saves
FLOOR_TRIES, FLOOR_STEP = 10, 1.02
COUNTED = ("stall_store_ns", "stall_load_ns", "nvme_store_busy_ns", "nvme_load_busy_ns")

Loss = Callable[[], torch.Tensor]
Model = tuple[torch.nn.Module, Loss]


def vision(name: str, images: int) -> Callable[[bool], Model]:
    """A model of torchvision on `images` of 224 x 224."""
    def make(quick: bool) -> Model:
        try:
            import torchvision  # noqa: PLC0415 - the others do without it
        except ModuleNotFoundError:
            train_runs.stop(f"bench-step --models: {name} is a model of torchvision, which is not installed")
        size, count = (64, 8) if quick else (224, images)
        model = getattr(torchvision.models, name)(num_classes=1000).train()
        batch, kinds = torch.randn(count, 3, size, size), torch.randint(1000, (count,))
        return model, lambda: functional.cross_entropy(model(batch), kinds)

    return make


def gpt(lines: int, sequence: int) -> Callable[[bool], Model]:
    def make(quick: bool) -> Model:
        shape = peers.Shape(layers=6, heads=6, width=192, batch=4 if quick else lines, sequence=sequence, vocab=512)
        model, text = peers.Gpt(shape, lambda number, block: block), peers.text(shape, seed=0)
        return model, lambda: model(text)

    return make


MODELS = {
    "resnet50": vision("resnet50", 8),
    "efficientnet_b0": vision("efficientnet_b0", 16),
    "regnet_y_400mf": vision("regnet_y_400mf", 32),
    "swin_t": vision("swin_t", 6),
    "gpt_64": gpt(128, 64),
    "gpt_512": gpt(16, 512),
}


class Bits(NamedTuple):
    """All of them."""
    loss: str
    gradients: str


class Training:
    def __init__(self, make: Callable[[bool], Model], quick: bool) -> None:
        torch.manual_seed(0)
        self.model, self.loss = make(quick)

    def step(self, session: spillway.Session | None) -> tuple[Run, Bits]:
        self.model.zero_grad()
        torch.manual_seed(1)  # dropout, stochastic depth
        cpu, begin = cpu_seconds(), time.perf_counter()
        with session or contextlib.nullcontext():
            loss = self.loss()
        turned = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        run = {"step_s": end - begin, "forward_s": turned - begin, "cpu_s": cpu_seconds() - cpu}
        return run, Bits(loss.item().hex(), self.gradients())

    def gradients(self) -> str:
        digest = hashlib.sha256()
        for parameter in self.model.parameters():
            digest.update(parameter.grad.numpy().tobytes())
        return digest.hexdigest()


def counted(report: Mapping[str, Any]) -> dict[str, int]:
    return {name: report[name] for name in COUNTED} | {
        "written_bytes": report["nvme_stored_bytes"],
        "read_bytes": report["nvme_moved_bytes"] - report["nvme_stored_bytes"],
        "admission_ns": report["stall_by_cause_ns"]["admission"]}


def side_of(training: Training, session: spillway.Session | None = None) -> Side:
    return Side(training, session, counted)


def opened(training: Training, options: argparse.Namespace, budget: int | str) -> spillway.Session:
    # What the drive carries is the measure.
    return spillway.session(training.model, device_budget=budget, nvme=options.folder, recompute="off")


def floor_bytes(training: Training, options: argparse.Namespace, needed: int) -> int:
    """The smallest budget of `needed` and more in which a step succeeds."""
    for number in range(FLOOR_TRIES):
        budget = int(needed * FLOOR_STEP**number)
        with contextlib.closing(opened(training, options, budget)) as session:
            try:
                training.step(session)
                return budget
            except torch.OutOfMemoryError as error:
                common.progress(f"{options.model}: {budget} bytes are too few: {str(error).splitlines()[0]}")
    raise RuntimeError(f"no budget up to {budget} bytes suffices, and the report says {needed}")


def sides_of(training: Training, options: argparse.Namespace) -> tuple[dict[str, Side], dict[str, Any]]:
    """All, warm, and what the budgets are."""
    unlimited = opened(training, options, UNLIMITED)
    sides = {"plain": side_of(training), "plain again": side_of(training), "held": side_of(training, unlimited)}
    for name in ("plain", *["held"] * WARM_UP_STEPS):
        sides[name].run()
    report = unlimited.report()
    peak, floor = report["device_peak_bytes"], floor_bytes(training, options, report["device_needed_bytes"])
    budgets = {str(share): int(floor + share * (peak - floor)) for share in options.shares}
    for share, budget in budgets.items():
        sides[share] = side_of(training, opened(training, options, budget))
        for _ in range(WARM_UP_STEPS):
            sides[share].run()
    return sides, {
        "peak_bytes": peak, "needed_bytes": report["device_needed_bytes"], "floor_bytes": floor,
        "budget_bytes": budgets,
        "saved_values": report["saved_values"] // WARM_UP_STEPS,
        "parameter_bytes": sum(each.numel() * each.element_size() for each in training.model.parameters())}


def drive(options: argparse.Namespace) -> Run:
    return dict(common.run_json([options.drive, "--folder", options.folder, "--size", str(options.drive_bytes)]))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    training = Training(MODELS[options.model], options.quick)
    sides, found = sides_of(training, options)
    shuffled, begin = random.Random(0), time.monotonic()
    rounds: list[dict[str, Run]] = []
    every_bits: dict[str, set[Bits]] = {name: set() for name in sides}
    while not is_enough(options, rounds, begin, "step_s"):
        order = [*sides, "drive"]
        shuffled.shuffle(order)
        done: dict[str, Run] = {}
        for name in order:
            if name == "drive":
                done[name] = drive(options)
            else:
                done[name], bits = sides[name].run()
                every_bits[name].add(bits)
        rounds.append(done)
        common.progress(f"{options.model}, round {len(rounds)}: {words(done)}")
    return found | {"rounds": rounds, "plain_over_plain": plain_over_plain(rounds, "step_s"), "bits_equal": {
        name: bits == every_bits["plain"] and len(bits) == 1 for name, bits in every_bits.items()}}


def words(done: dict[str, Run]) -> str:
    steps = ", ".join(f"{name} {run['step_s']:.3f} s" for name, run in done.items() if name != "drive")
    return f"{steps}, drive {done['drive']['write_gb_per_s']:.2f} and {done['drive']['read_gb_per_s']:.2f} GB/s"


if __name__ == "__main__":
    measure_model(__doc__, MODELS, {
        "--shares": {"type": json.loads, "required": True, "help": "of what can leave, that stay: [0.5, 0.25]"},
        "--folder": {"required": True, "help": "that saved tensors wait in"},
        "--drive": {"required": True, "help": "nvme_bench"},
        "--drive-bytes": {"type": int, "required": True},
    }, measure)
