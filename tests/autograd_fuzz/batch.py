# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Programs under one set of sessions, compared with what plain autograd did with them before."""

import contextlib
import dataclasses
import warnings
from collections.abc import Callable

import torch

from . import operators
from .interpret import Event, Plain, Refused, System, alive, collect, difference, interpret
from .known import known, source_written
from .program import Program, Step
from .systems import Budget, IgnoresWrites, Sessions, Still

Left = tuple[int, set[int]]  # device bytes in use, and results that plain autograd did not leave


@dataclasses.dataclass
class Tally:
    programs: int = 0
    refused: int = 0
    moved_bytes: int = 0
    coded_programs: int = 0  # in which a value left encoded
    coded_values: int = 0
    loaded_programs: int = 0  # in which a value came back
    recomputed_programs: int = 0  # in which a value was made again
    known: dict[str, int] = dataclasses.field(default_factory=dict)
    failed: dict[int, str] = dataclasses.field(default_factory=dict)  # seed: the first difference
    torch_crashed: list[int] = dataclasses.field(default_factory=list)  # seeds: plain autograd ends the process


def quiet() -> None:
    """Bits depend on the number of threads; the programs' warnings are nobody's."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def run_batch(programs: list[Program], budget: Budget, folder: str, tally: Tally,
              about: Callable[[int], None] = lambda seed: None, patient: frozenset[int] = frozenset()) -> None:
    """Plain autograd first, because a session caps its thread. What leaves bytes behind that plain autograd does not
    may have run on a slow drive: all runs once more, and waits longer for those seeds, `patient`."""
    expected: list[list[Event]] = []
    for program in programs:
        about(program.seed)
        expected.append(interpret(program, Plain()))
    sessions = Sessions(budget, folder)
    left: list[tuple[Program, Left]] = []
    try:
        for program, events in zip(programs, expected, strict=True):
            about(program.seed)
            coded, loaded = sessions.coded_values(), sessions.total("loaded_bytes")
            recomputed = sessions.total("recomputed_values")
            left.append((program, _compare(program, events, sessions, tally, program.seed in patient)))
            coded = sessions.coded_values() - coded
            tally.coded_values += coded
            tally.coded_programs += coded > 0
            tally.loaded_programs += sessions.total("loaded_bytes") > loaded
            tally.recomputed_programs += sessions.total("recomputed_values") > recomputed
            sessions.between_programs()
        _look_for_leaks(programs[-1].seed, sessions, tally)
        tally.moved_bytes += sessions.total("stored_bytes") + sessions.total("loaded_bytes")
    finally:
        sessions.close()
    slow: set[int] = set()
    for program, (device_bytes, results) in left:
        if (device_bytes > 0 or results) and not _plain_leaves(program, (device_bytes, results), budget, folder):
            why = f"left after it: {device_bytes} device bytes, results {results}"
            if results or program.seed in patient:
                tally.failed.setdefault(program.seed, why)
            else:
                slow.add(program.seed)
    if slow:
        again = Tally()
        run_batch(programs, budget, folder, again, about, frozenset(slow) | patient)
        tally.failed = again.failed | tally.failed


def _compare(program: Program, expected: list[Event], sessions: Sessions, tally: Tally, patiently: bool) -> Left:
    before = sessions.device_bytes()
    tally.programs += 1
    events: list[Event] = []
    with contextlib.suppress(Refused):
        events = interpret(program, sessions)
    if not events:
        tally.refused += 1
        collect()  # when its error is gone, and all that the error held
        return 0, set()
    found = difference(expected, events)
    if found and (name := known(*found) or known_under_hooks(program, found[0], events) or known_of_blocks(program, found[1])):
        tally.known[name] = tally.known.get(name, 0) + 1
    elif found and _is_unsteady(program, expected):
        tally.known["unsteady_in_plain"] = tally.known.get("unsteady_in_plain", 0) + 1
    elif found:
        tally.failed[program.seed] = f"plain {found[0]}\nother {found[1]}"
    if found or before > 0:  # it went another way; what an earlier program left may come and go
        return 0, set()
    return sessions.settle(0, patiently), alive(events) - alive(expected)


def _is_unsteady(program: Program, expected: list[Event]) -> bool:
    """Plain autograd alone does not repeat it: some operators read memory that nothing has written."""
    with contextlib.suppress(Refused):
        return any(difference(expected, interpret(program, Plain())) is not None for _ in range(3))
    return False


def known_under_hooks(program: Program, plain: Event, events: list[Event]) -> str:
    """Where a tensor is detached in place and plain autograd goes on: to a Function, a reentrant checkpoint too, it gives
    the detached one; under any hooks torch gives one of its node. Known if Python's do exactly as `events`."""
    if "Error" in str(plain[1:2]) or not _has(program.steps, "detach_"):
        return ""
    same = difference(interpret(program, IgnoresWrites()), events) is None
    return "detached_input_of_a_function" if same else ""


def known_of_blocks(program: Program, other: Event) -> str:
    """Whole blocks are made again from what the model has as it lies there: where a program writes to that, or gives it
    other data, the step stops. Where no statement writes, what is made again is wrong."""
    writes = {*operators.INPLACE, *operators.INPLACE_PAIR, "touch", "update", "refill", "function", "batch_norm_running"}
    is_written = any(step.op in writes or step.attrs.get("kind") == "update" for step in program.every_step())
    return "source_written" if is_written and source_written(other) else ""


def _has(steps: list[Step], op: str) -> bool:
    return any(step.op == op or _has(step.body, op) for step in steps)


def _plain_leaves(program: Program, left: Left, budget: Budget, folder: str) -> bool:
    """As much is left in one of some runs where nothing moves: torch's own cycles, threads that end late."""
    device_bytes, results = left
    still = Still(Budget(["64MiB"] * len(budget.device), recompute=budget.recompute), folder)  # a leaf counts in each
    try:
        for _ in range(5):
            before = still.device_bytes()
            events = interpret(program, still)
            if still.device_bytes() - before >= device_bytes and results <= alive(events):
                return True
        return False
    finally:
        still.close()


def _look_for_leaks(seed: int, sessions: Sessions, tally: Tally) -> None:
    found = sessions.leaks()
    if found:
        tally.failed.setdefault(seed, "or one before it: " + found)


def differs_under(system: System, program: Program) -> bool:
    """For systems without a budget."""
    found = difference(interpret(program, Plain()), interpret(program, system))
    return found is not None and not known(*found)
