# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Runs cases under systems: a system in a process of its own, so that a crash or a hang is one cell."""

import faulthandler
import functools
import gc
import importlib
import json
import os
import pathlib
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import IO, Any

import case
import judge
import systems
import torch
from case import CRASH, HANG, NONE, PASS, Case, Outcome, System
from judge import Reference

HANG_SECONDS = 600.0
MODULES = ("in_place", "not_counted", "handed_out", "graph", "order", "hooks", "release", "views", "kinds", "functions",
           "transforms", "regions", "modes", "threads", "training")

Column = dict[str, Outcome]
Emit = Callable[..., None]
Work = Callable[[Emit], None]  # of a child, which tells lines


def cases() -> list[Case]:
    for module in MODULES:
        importlib.import_module(f"cases_{module}")
    return list(case.all_cases())


def column(kind: type[System], todo: list[Case], folder: str, log: pathlib.Path) -> tuple[Column, str]:
    """Every case under one system, and its version. A process that dies is followed by another one."""
    expected = references(kind, todo, folder, log)
    if isinstance(expected, str):
        return {each.name: Outcome(NONE, expected) for each in todo}, "absent"
    done: Column = {}
    version = ""
    while len(done) < len(todo):
        rest = [each for each in todo if each.name not in done]
        lines, ending = _in_a_process(lambda emit, rest=rest: _cases(kind, rest, expected, folder, emit), log)
        started = ""
        for line in lines:
            if "absent" in line:
                return {each.name: Outcome(NONE, line["absent"]) for each in todo}, "absent"
            if "fault" in line:
                raise RuntimeError(f"{kind.name}: {line['fault']}; see {log}")
            version = line.get("version", version)
            started = line.get("name", "") if "outcome" not in line else ""
            if "outcome" in line:
                done[line["name"]] = Outcome(*line["outcome"])
        if started:
            done[started] = ending
        elif ending.kind:
            raise RuntimeError(f"{kind.name}: {ending.why} outside of a case; see {log}")
    return done, version


def _in_a_process(work: Work, log: pathlib.Path) -> tuple[list[Any], Outcome]:
    """What a child told, line by line, and how it ended: no outcome's kind where it ended well."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            code = _child(work, log, os.fdopen(writing, "w"))
        finally:
            os._exit(code)
    os.close(writing)
    lines, hung = _lines_of(reading)
    if hung:
        os.kill(child, signal.SIGUSR1)  # the stacks of all its threads, into the log
        time.sleep(5)
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if hung:
        return lines, Outcome(HANG, f"no end after {HANG_SECONDS:g} s; its stacks are in {log}")
    if status == 0:
        return lines, Outcome("")
    return lines, Outcome(CRASH, signal.Signals(-status).name if status < 0 else f"exit code {status}")


def _lines_of(reading: int) -> tuple[list[Any], bool]:
    text = b""
    hung = False
    while True:
        ready, _, _ = select.select([reading], [], [], HANG_SECONDS)
        piece = os.read(reading, 1 << 16) if ready else b""
        hung = not ready
        if not piece:
            break
        text += piece
    os.close(reading)
    return [json.loads(line) for line in text.decode().splitlines()], hung


def _child(work: Work, log: pathlib.Path, out: IO[str]) -> int:
    quiet = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    torch.set_num_threads(1)  # remakes the pool that a fork breaks, before autograd's threads ask for it

    def emit(**fields: Any) -> None:
        out.write(json.dumps(fields) + "\n")
        out.flush()
    try:
        work(emit)
        return 0
    except ImportError as missing:
        emit(absent=f"not here: {missing}")
        return 0
    except Exception as fault:  # noqa: BLE001 - of the suite or of an adapter: no system's outcome
        print(traceback.format_exc(limit=-4), file=sys.stderr, flush=True)
        emit(fault=judge.first_line(fault))
        return 1


_references: dict[str, dict[str, Reference]] = {}  # by device


def references(kind: type[System], todo: list[Case], folder: str,
               log: pathlib.Path) -> dict[str, Reference] | str:
    """What plain autograd does on the system's device, from a process that no system has touched; or why there
    is no such device. What an accelerator in software cannot do, it cannot pose."""
    device = systems.device_name(kind)
    known = _references.setdefault(device, {})
    while missing := [each for each in todo if each.name not in known]:
        lines, ending = _in_a_process(lambda emit, rest=missing: _plain(kind, rest, folder, emit), log)
        if lines and "absent" in lines[0]:
            return lines[0]["absent"]
        faults = {line["name"]: line["fault"] for line in lines if "fault" in line}
        found = {line["name"]: Reference(**line["reference"]) for line in lines if "reference" in line}
        if ending.kind:
            died = next(each.name for each in missing if each.name not in found | faults)
            faults[died] = f"plain autograd: {ending.kind}, {ending.why}"
        if faults and device == "cpu":
            raise RuntimeError("\n".join(faults.values()))
        known |= found | {name: Reference(None, "", missing=f"on this device: {why}") for name, why in faults.items()}
    return known


def _plain(kind: type[System], todo: list[Case], folder: str, emit: Emit) -> None:
    plain = System(systems.device_of(kind), folder)
    for each in todo:
        try:
            emit(name=each.name, reference=vars(judge.reference(each, plain)))
        except Exception as fault:  # noqa: BLE001 - all of them are told
            emit(name=each.name, fault=judge.first_line(fault))


def _cases(kind: type[System], todo: list[Case], expected: dict[str, Reference], folder: str,
           emit: Callable[..., None]) -> None:
    system = kind(systems.device_of(kind), folder)
    emit(version=system.version())
    gc.collect()
    gc.freeze()
    for each in todo:
        emit(name=each.name)
        start = time.process_time()
        outcome = judge.judged(each, system, expected[each.name])
        system.end(outcome.kind in (PASS, NONE))
        gc.collect()
        seconds = time.process_time() - start
        print(f"{seconds:.3f} {each.name}: {outcome.kind} {outcome.why}", file=sys.stderr, flush=True)
        emit(name=each.name, outcome=(outcome.kind, outcome.why))


@functools.cache
def prepare() -> None:
    """Once, before the first process: what all of them import."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    systems.warm()
    gc.collect()
    gc.freeze()
