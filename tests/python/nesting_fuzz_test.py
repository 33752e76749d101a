# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Random programs over three sessions that are entered inside one another in any order: each ends with the bits that
plain autograd gives, or with an OutOfMemoryError."""

import contextlib
import faulthandler
import random
import unittest
from dataclasses import dataclass, field
from typing import Any

import torch
from same_bits import Case, bits, gradients

WIDTH, ROWS, MODELS = 96, 256, 3
MEBI = 1 << 20
SEEDS = range(24)
TIGHT, AMPLE = MEBI, 3 * MEBI // 2
HANGS_AFTER_S = 600


class Stop(Exception):
    """Leaves a with."""


@dataclass
class Run:
    """One random program; the same seed gives the same program with and without sessions."""

    choices: random.Random
    models: list[torch.nn.Sequential]
    sessions: list[Any]
    inside: set[int] = field(default_factory=set)
    kept: list[torch.Tensor] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in self.models]

    def act(self, depth: int) -> None:
        for _ in range(self.choices.randint(1, 4)):
            which = self.choices.randrange(MODELS)
            draw = self.choices.random()
            if draw < 0.35 and depth < MODELS and which not in self.inside:
                self.enter(which, depth)
            elif draw < 0.7:
                self.forward(which)
            elif draw < 0.85 and self.kept:
                self.backward()
            elif draw < 0.93:
                self.optimizers[which].step()
                self.optimizers[which].zero_grad(set_to_none=self.choices.random() < 0.7)
                self.kept.clear()  # their graphs saved the parameters as they were before

    def enter(self, which: int, depth: int) -> None:
        self.inside.add(which)
        stops = self.choices.random() < 0.15
        with contextlib.suppress(Stop), self.sessions[which]:
            self.act(depth + 1)
            if stops:
                raise Stop
        self.inside.discard(which)

    def forward(self, which: int) -> None:
        x = torch.randn(ROWS, WIDTH)
        if self.kept and self.choices.random() < 0.4:
            x = self.choices.choice(self.kept)
        output = self.models[which](x)
        if self.choices.random() < 0.3:
            output = output.clone().mul_(1.1)
        self.kept = [*self.kept[-4:], output]

    def backward(self) -> None:
        loss = self.kept.pop(self.choices.randrange(len(self.kept))).square().mean()
        retains = self.choices.random() < 0.3
        try:
            loss.backward(retain_graph=retains)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # a graph that is freed already
            self.errors.append(str(error)[:40])

    def result(self) -> list[str]:
        for _ in range(4):
            self.act(0)
        return self.errors + [line for model in self.models for line in bits(model.parameters()) + gradients(model)]


def models_of(choices: random.Random) -> list[torch.nn.Sequential]:
    activations = [torch.nn.ReLU, torch.nn.Tanh, torch.nn.GELU, torch.nn.Dropout]
    return [torch.nn.Sequential(*[layer for _ in range(4) for layer in
                                  (torch.nn.Linear(WIDTH, WIDTH), choices.choice(activations)())])
            for _ in range(MODELS)]


class NestingFuzz(Case):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def run_one(self, seed: int, budget: int | None) -> list[str]:
        choices = random.Random(seed)
        torch.manual_seed(seed)
        models = models_of(choices)
        options = [(choices.choice([1.0, 1.3, 3.0]), choices.choice([{}, {}, {"codec": "all=lossless"}]),
                    choices.choice([0, 4096])) for _ in models]
        sessions = [contextlib.nullcontext() for _ in models] if budget is None else [
            self.open(model, int(budget * factor), min_tensor_bytes=least, **codec)
            for model, (factor, codec, least) in zip(models, options, strict=True)]
        return Run(choices, models, sessions).result()

    def run_all(self, budget: int) -> tuple[int, int]:
        """How many programs ended as under plain autograd, and of how many sessions of these something left."""
        same = moved = 0
        for seed in SEEDS:
            faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)  # anew for each program
            with self.subTest(seed=seed, budget=budget):
                plain = self.run_one(seed, None)
                with contextlib.suppress(torch.OutOfMemoryError):
                    self.assertEqual(self.run_one(seed, budget), plain)
                    same += 1
                    moved += sum(session.report()["freed_bytes"] > 0 for session in self.sessions)
                for session in self.sessions:
                    session.close()
                self.sessions.clear()
        return same, moved

    def test_tight_budgets(self):
        """Many programs do not fit, and none loops for ever."""
        same, moved = self.run_all(TIGHT)
        self.assertGreater(same, 0.2 * len(SEEDS))
        self.assertLess(same, 0.8 * len(SEEDS))
        self.assertGreater(moved, 0.2 * len(SEEDS))

    def test_ample_budgets(self):
        same, moved = self.run_all(AMPLE)
        self.assertGreater(same, 0.5 * len(SEEDS))
        self.assertGreater(moved, 0.2 * len(SEEDS))


if __name__ == "__main__":
    unittest.main()
