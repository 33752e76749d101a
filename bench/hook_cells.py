# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The measurement of bench-hook, in one process of the Python whose torch is measured. Prints one JSON line.

A cell is a size of the saved tensors and what is saved, or a small GPT. In each round of a cell every side runs the
same once, after a run that does not count and brings its memory into the caches; the order is another one each round,
so that whatever else the machine does falls on all alike.
"""

import argparse
import contextlib
import gc
import json
import random
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import spillway
import steady
import torch
from instructions import UserInstructions

SIZES = {64: 100, 64 << 10: 50, 1 << 20: 10}  # bytes of a tensor, and products in a chain of it
BUDGET = "4GiB"  # far above what is used: nothing has to move
HOST = "256MiB"
SAVES = 2        # of a product
VOCABULARY, WIDTH = 512, 256
LEAST_ROUNDS = 8
Around = Callable[[], contextlib.AbstractContextManager]


def whole(products: int, elements: int) -> torch.Tensor:
    """Products of the two values before: each saves one new value and one that was saved before."""
    a, b = (torch.ones(elements, requires_grad=True) for _ in range(2))
    for _ in range(products):
        a, b = b, a * b
    return b


def aliases(products: int, elements: int) -> torch.Tensor:
    """The same of fresh views of the values, as `x.t()` or `x.view(...)` in a model gives them."""
    a, b = (torch.ones(elements, requires_grad=True) for _ in range(2))
    for _ in range(products):
        a, b = b, a.view(-1) * b.view(-1)
    return b


def identity_hooks() -> contextlib.AbstractContextManager:
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


class Stopped(Exception):
    """Leaves a with."""


def left(session: spillway.Session) -> contextlib.AbstractContextManager:
    """What this thread allocates after it comes from the session's arena, and nothing is saved there."""
    with session:
        pass
    return contextlib.nullcontext()


def stop_capping(session: spillway.Session) -> None:
    """Until it is entered again, what this thread allocates is no longer the session's: an error left it."""
    with contextlib.suppress(Stopped), session:
        raise Stopped


class Cost(NamedTuple):
    ns: float
    user_ns: float
    instructions: int | None  # None: the machine's counters are closed

    def plus(self, other: "Cost") -> "Cost":
        counted = None if self.instructions is None else self.instructions + other.instructions
        return Cost(self.ns + other.ns, self.user_ns + other.user_ns, counted)


def measured(work: Callable[[], Any], counter: UserInstructions) -> tuple[Any, Cost]:
    user = resource.getrusage(resource.RUSAGE_THREAD).ru_utime
    counted, begin = counter.read(), time.perf_counter_ns()
    made = work()
    took, now = time.perf_counter_ns() - begin, counter.read()
    user = resource.getrusage(resource.RUSAGE_THREAD).ru_utime - user
    return made, Cost(took, user * 1e9, None if now is None else now - counted)


class Side:
    """One way to run the work of a cell, and what each of its runs cost."""

    def __init__(self, around: Around, counts_entering: bool = False) -> None:
        self.around = around
        self.counts_entering = counts_entering
        self.costs: list[Cost] = []

    def run(self, forward: Callable[[], torch.Tensor], counter: UserInstructions) -> None:
        def entered() -> torch.Tensor:
            with self.around():
                return forward()

        if self.counts_entering:
            end, first = measured(entered, counter)
        else:
            with self.around():
                end, first = measured(forward, counter)
        _, then = measured(lambda: end.backward(torch.ones_like(end)), counter)
        self.costs.append(first.plus(then))

    def lower_quartile_ns(self) -> float:
        return statistics.quantiles([cost.ns for cost in self.costs], n=4)[0]

    def mean_user_ns(self) -> float:
        """Of all rounds, since the clock of user time is coarse."""
        return statistics.fmean(cost.user_ns for cost in self.costs)

    def instructions(self) -> float | None:
        counted = [cost.instructions for cost in self.costs if cost.instructions is not None]
        return statistics.median(counted) if counted else None


def run_rounds(sides: dict[str, Side], forward: Callable[[], torch.Tensor], session: spillway.Session, seconds: float,
               counter: UserInstructions) -> int:
    """How many count."""
    end = time.monotonic() + seconds
    shuffled = random.Random(0)
    rounds = 0
    while time.monotonic() < end or rounds < LEAST_ROUNDS:
        order = list(sides.values())
        shuffled.shuffle(order)
        for side in order:
            side.run(forward, counter)
            side.costs.pop()
            side.run(forward, counter)
            stop_capping(session)
        rounds += 1
    return rounds


def cell(chain: Callable[[int, int], torch.Tensor], size_bytes: int, seconds: float,
         counter: UserInstructions) -> dict[str, Any]:
    products, elements = SIZES[size_bytes], size_bytes // 4
    packs = SAVES * products
    session = spillway.session(torch.nn.Linear(2, 2), device_budget=BUDGET, host_budget=HOST)
    sides = {"plain": Side(contextlib.nullcontext), "plain again": Side(contextlib.nullcontext),
             "python": Side(identity_hooks), "session": Side(lambda: session), "arena": Side(lambda: left(session))}
    rounds = run_rounds(sides, lambda: chain(products, elements), session, seconds, counter)
    report = session.report()
    session.close()
    plain = sides["plain"]
    counted = {name: side.instructions() for name, side in sides.items()}
    others = [name for name in sides if name != "plain"]
    return {
        "bytes": size_bytes, "saved": chain.__name__, "rounds": rounds, "packs": packs,
        "plain_ns": round(plain.lower_quartile_ns() / packs, 1), "plain_over_plain": plain_over_plain(sides),
        **{f"{name.replace(' ', '_')}_ns": round((sides[name].lower_quartile_ns() - plain.lower_quartile_ns()) / packs, 1)
           for name in others},
        "user_ns": {name: round((sides[name].mean_user_ns() - plain.mean_user_ns()) / packs) for name in others},
        "instructions": None if counted["plain"] is None else {
            name: round((counted[name] - counted["plain"]) / packs) for name in others},
        "moved_bytes": report["stored_bytes"],
        "registered_share": 1 - report["passed_tensors"] / report["saved_tensors"],
    }


class Gpt(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(tokens), is_causal=True, mask=self.mask(tokens.shape[1]))).logsumexp(
            -1).mean()

    @staticmethod
    def mask(length: int) -> torch.Tensor:
        return torch.nn.Transformer.generate_square_subsequent_mask(length)


def gpt_cell(seconds: float, counter: UserInstructions) -> dict[str, Any]:
    """A step without optimizer, of which the session's includes entering."""
    torch.manual_seed(0)
    model = Gpt()
    tokens = torch.randint(VOCABULARY, (1, 128))
    session = spillway.session(model, device_budget=BUDGET, host_budget=HOST)
    sides = {"plain": Side(contextlib.nullcontext), "plain again": Side(contextlib.nullcontext),
             "session": Side(lambda: session, counts_entering=True)}
    rounds = run_rounds(sides, lambda: model(tokens), session, seconds, counter)
    saved = session.report()["saved_tensors"] / (2 * rounds)
    session.close()
    plain, ours = sides["plain"], sides["session"]
    counted = plain.instructions()
    return {
        "saved": "gpt", "rounds": rounds, "packs": saved, "plain_ms": plain.lower_quartile_ns() / 1e6,
        "plain_over_plain": plain_over_plain(sides),
        "session_over_plain": round(ours.lower_quartile_ns() / plain.lower_quartile_ns(), 5),
        "user_over_plain": round(ours.mean_user_ns() / plain.mean_user_ns(), 5),
        "instructions_over_plain": None if counted is None else round(ours.instructions() / counted, 5),
    }


def plain_over_plain(sides: dict[str, Side]) -> list[float]:
    """The interval of the ratio of two runs of plain in one round."""
    one, again = ([cost.ns for cost in sides[name].costs] for name in ("plain", "plain again"))
    return [round(end, 5) for end in steady.interval_of_median([b / a for a, b in zip(one, again, strict=True)])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, required=True, metavar="S", help="of each cell")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gc.disable()
    counter = UserInstructions()
    cells = [cell(chain, size, options.seconds, counter) for size in SIZES for chain in (whole, aliases)]
    print(json.dumps({"cells": cells, "gpt": gpt_cell(options.seconds, counter)}))


if __name__ == "__main__":
    main()
