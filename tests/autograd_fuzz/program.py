# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A random autograd program as plain data: leaves, then steps over earlier results. JSON both ways."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass
class Leaf:
    """A tensor that the program begins with; its numbers follow from `seed`."""

    name: int
    shape: list[int]
    dtype: str = "float32"
    requires_grad: bool = True
    layout: str = "plain"  # or "transposed"
    high: int = 0  # integers: below this
    seed: int = 0


@dataclasses.dataclass
class Step:
    """One statement, or one action of backward: `outs` = `op`(`args`). Some have a body of statements, which
    sees `args` and what its own statements made."""

    op: str
    args: list[int] = dataclasses.field(default_factory=list)
    outs: list[int] = dataclasses.field(default_factory=list)
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    body: list["Step"] = dataclasses.field(default_factory=list)

    def uses(self) -> Iterator[int]:
        yield from self.args
        for step in self.body:
            yield from step.uses()

    def steps(self) -> Iterator["Step"]:
        yield self
        for step in self.body:
            yield from step.steps()


@dataclasses.dataclass
class Program:
    """`hold`: every result lives to the end; else each until its last use."""

    seed: int
    leaves: list[Leaf]
    steps: list[Step]
    hold: bool = False

    def every_step(self) -> Iterator[Step]:
        for step in self.steps:
            yield from step.steps()

    def last_uses(self) -> dict[int, list[int]]:
        """Index of a step: the results that are not used after it."""
        last: dict[int, int] = {}
        for index, step in enumerate(self.steps):
            for name in [*step.uses(), *step.outs]:
                last[name] = index
        ends: dict[int, list[int]] = {}
        for name, index in last.items():
            ends.setdefault(index, []).append(name)
        return ends


def to_json(program: Program) -> str:
    """One line a leaf and a step, so that a kept program can be read."""

    def lines(items: list[Any]) -> str:
        return ",\n".join("    " + json.dumps(_trimmed(dataclasses.asdict(item))) for item in items)

    return (f'{{\n  "seed": {program.seed},\n  "hold": {json.dumps(program.hold)},\n'
            f'  "leaves": [\n{lines(program.leaves)}\n  ],\n  "steps": [\n{lines(program.steps)}\n  ]\n}}\n')


def _trimmed(item: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in item.items() if value not in ({}, [])}
    if "body" in kept:
        kept["body"] = [_trimmed(step) for step in kept["body"]]
    return {"shape": item["shape"], **kept} if "shape" in item else kept


def _step(item: dict[str, Any]) -> Step:
    return Step(**{**item, "body": [_step(inner) for inner in item.get("body", [])]})


def from_json(text: str) -> Program:
    whole = json.loads(text)
    return Program(whole["seed"], [Leaf(**leaf) for leaf in whole["leaves"]],
                   [_step(step) for step in whole["steps"]], whole["hold"])
