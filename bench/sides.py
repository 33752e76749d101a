# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Ways to run the same step, in rounds in one process: what the benches of several models share."""

import argparse
import json
import os
import resource
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import spillway
import steady
import torch

Run = dict[str, Any]


class Training(Protocol):
    def step(self, session: spillway.Session | None) -> tuple[Run, Any]:
        """Its times, and its bits."""


class Side:
    """One way to run a step, and what its last step added to what `counted` takes from its session's report."""

    def __init__(self, training: Training, session: spillway.Session | None,
                 counted: Callable[[Mapping[str, Any]], dict[str, int]]) -> None:
        self.training, self.session, self.counted = training, session, counted
        self.before: dict[str, int] = {}

    def run(self) -> tuple[Run, Any]:
        run, bits = self.training.step(self.session)
        if self.session is not None:
            report = self.session.report()
            now = self.counted(report)
            run |= {name: number - self.before.get(name, 0) for name, number in now.items()}
            run["peak_bytes"] = report["device_peak_bytes"]
            self.before = now
        return run, bits


def cpu_seconds() -> float:
    """Of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def is_enough(options: argparse.Namespace, rounds: list[dict[str, Run]], begin: float, clock: str) -> bool:
    """Rounds from `begin` on: plain beside plain is steady by `clock`, or another round would not end in the minutes."""
    is_steady = steady.is_steady(plain_over_plain(rounds, clock))
    return steady.is_late(begin, len(rounds), options.minutes) or (len(rounds) >= options.least_rounds and is_steady)


def plain_over_plain(rounds: list[dict[str, Run]], clock: str) -> list[float]:
    return [done["plain again"][clock] / done["plain"][clock] for done in rounds]


def measure_model(doc: str | None, models: Iterable[str], flags: Mapping[str, Mapping[str, Any]],
                  measure: Callable[[argparse.Namespace], Run]) -> None:
    """All of a process that measures one model: reads its flags, those that all such have among them, and prints a line of JSON."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=models, required=True)
    for name, how in flags.items():
        parser.add_argument(name, **how)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--least-rounds", type=int, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore", category=UserWarning)  # of the models' libraries
    print(json.dumps(measure(options)), flush=True)
