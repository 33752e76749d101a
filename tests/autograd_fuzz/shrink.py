# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a failing program small while it still fails, for a bounded time."""

import copy
import time
from collections.abc import Callable, Iterator

from .program import Program, Step, from_json, to_json

Fails = Callable[[Program], bool]


def shrunk(program: Program, fails: Fails, seconds: float = 60) -> Program:
    """The smallest found: fewer steps, then fewer leaves, plainer steps, smaller sizes, until nothing
    helps."""
    end = time.monotonic() + seconds
    helped = True
    while helped and time.monotonic() < end:
        steps = len(program.steps)
        program = _without_runs(program, lambda candidate: time.monotonic() < end and fails(candidate))
        helped = len(program.steps) < steps
        for candidates in (_without_inner, _without_leaves, _plainer, _smaller):
            while time.monotonic() < end:
                better = next((c for c in candidates(program) if time.monotonic() < end and fails(c)), None)
                if better is None:
                    break
                program, helped = better, True
    return program


def _without_runs(program: Program, fails: Fails) -> Program:
    """Without as many runs of steps as can go: halves, quarters, and so on to one, the last ones first."""
    length = max(len(program.steps) // 2, 1)
    while length > 0:
        start = len(program.steps) - length
        while start >= 0:
            smaller = _with_steps(program, program.steps[:start] + program.steps[start + length:])
            program = smaller if fails(smaller) else program
            start -= length
        length //= 2
    return program


def _with_steps(program: Program, steps: list[Step]) -> Program:
    return Program(program.seed, program.leaves, steps, program.hold)


def _without_inner(program: Program) -> Iterator[Program]:
    """Without one statement of a body."""
    inner = sum(1 for _ in program.every_step()) - len(program.steps)
    for number in range(inner):
        smaller = copy.deepcopy(program)
        left = number
        for step in smaller.every_step():
            if left < len(step.body):
                del step.body[left]
                break
            left -= len(step.body)
        yield smaller


def _without_leaves(program: Program) -> Iterator[Program]:
    used = {name for step in program.steps for name in step.uses()}
    used |= {name for step in program.every_step() for name in step.args}
    kept = [leaf for leaf in program.leaves if leaf.name in used]
    if len(kept) < len(program.leaves):
        yield Program(program.seed, kept, program.steps, program.hold)


def _plainer(program: Program) -> Iterator[Program]:
    """One argument fewer, no hold, leaves as they mostly are, no thread, each alone."""
    if program.hold:
        yield Program(program.seed, program.leaves, program.steps)
    for index, leaf in enumerate(program.leaves):
        for name, value in (("layout", "plain"), ("dtype", "float32")):
            if getattr(leaf, name) != value and not leaf.high:
                smaller = copy.deepcopy(program)
                setattr(smaller.leaves[index], name, value)
                yield smaller
    for index, step in enumerate(program.steps):
        for name in ("thread", "retain", "create", "early_stop", "reentrant"):
            if step.attrs.get(name):
                smaller = copy.deepcopy(program)
                smaller.steps[index].attrs[name] = False
                yield smaller
        needed = step.attrs.get("roots", 0 if step.op == "loss" else len(step.args))
        for place in range(needed, len(step.args)):
            smaller = copy.deepcopy(program)
            if len(step.args) > 1:
                del smaller.steps[index].args[place]
                yield smaller


def _smaller(program: Program) -> Iterator[Program]:
    """A size replaced everywhere by a smaller one."""
    text = to_json(program)
    sizes = {size for leaf in program.leaves for size in leaf.shape if size > 2}
    for size in sorted(sizes, reverse=True):
        for less in {2, size // 2}:
            smaller = from_json(text)
            for leaf in smaller.leaves:
                leaf.shape = [less if each == size else each for each in leaf.shape]
            for step in smaller.every_step():
                for name in ("shape", "sizes"):
                    if name in step.attrs:
                        step.attrs[name] = [less if each == size else each for each in step.attrs[name]]
            if less < size:
                yield smaller
