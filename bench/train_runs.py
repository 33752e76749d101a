# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Training runs as separate processes, for the demo and for the benches that train.

A run's numbers are those of the program's own --json file: losses, seconds a step, the allocator's
peak, the process's peak (VmHWM), the kernel's counters of bytes written and read.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20


class Run(NamedTuple):
    name: str
    ok: bool
    lines: list[str]         # what it printed
    results: dict[str, Any]  # its --json file; empty when there is none

    def __getattr__(self, field: str) -> Any:
        """Fields of the results; None for what the run does not know."""
        if field.startswith("__"):
            raise AttributeError(field)
        return self.results.get(field)

    @property
    def error_text(self) -> str | None:
        """Why it failed: as its results say, else the last line that it printed."""
        if self.ok:
            return None
        return self.results.get("error") or (self.lines[-1] if self.lines else "said nothing")


class Programs(NamedTuple):
    spillway: list[str]
    plain: list[str]      # the same loop on stock torch, Spillway's library not loaded


def stop(why: str) -> NoReturn:
    """Nothing to measure: one line, exit code 2."""
    print(why, file=sys.stderr, flush=True)
    sys.exit(2)


def programs(build: pathlib.Path) -> Programs:
    spillway = build / "bin" / "spillway"
    plain = build / "bench" / "plain_train"
    for program in (spillway, plain):
        if not program.exists():
            stop(f"{program} is not built; `make build` builds it")
    return Programs([str(spillway), "train"], [str(plain)])


def train(name: str, command: Sequence[str], flags: Sequence[str], folder: pathlib.Path,
          show: bool = True) -> Run:
    """Runs to the end, whatever that is; `show` prints what it prints, a name in front."""
    file = folder / f"{name}.json"
    file.unlink(missing_ok=True)
    if show:
        print(f"{name}: {' '.join(flags)}", file=sys.stderr, flush=True)
    lines: list[str] = []
    with subprocess.Popen([*command, *flags, "--json", str(file)], text=True, errors="replace",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as child:
        try:
            for line in child.stdout:
                lines.append(line.rstrip())
                if show:
                    print(f"{name}: {lines[-1]}", file=sys.stderr, flush=True)
        except BaseException:
            child.kill()
            raise
    if child.returncode < 0:
        lines.append(f"ended by signal {-child.returncode} ({signal.strsignal(-child.returncode)})")
    try:
        results = json.loads(file.read_text())
    except (OSError, ValueError):  # none, or half of one
        results = {}
    return Run(name, child.returncode == 0 and bool(results.get("ok")), lines, results)


def usual_seconds(*runs: Run) -> float | None:
    """The median step of all runs together, each without its first step."""
    steps = [s for run in runs for s in (run.step_seconds or [])[1:]]
    return statistics.median(steps) if steps else None


def losses_equal(reference: Run, other: Run) -> bool:
    """Bitwise: the files hold the shortest text that reads back as the same float."""
    ours, theirs = reference.losses, other.losses
    return bool(ours) and ours == theirs and None not in ours


def add_flags(parser: argparse.ArgumentParser, cap: str | None = "700MiB") -> None:
    """The flags that every program here has."""
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "torch", metavar="DIR",
                        help="where spillway is built (default build/torch)")
    parser.add_argument("--folder", type=pathlib.Path, metavar="DIR",
                        help="on the disk that saved tensors wait on (default: the build folder)")
    if cap is not None:
        parser.add_argument("--cap", default=cap, help="device bytes (default %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="of torch's operators, in every run (default: one a core)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default %(default)s")
    parser.add_argument("flags", nargs="*", metavar="-- FLAG ...",
                        help="further flags of `spillway train`, for every run: another model")


def shared_flags(options: argparse.Namespace, steps: int) -> list[str]:
    return ["--steps", str(steps), "--seed", str(options.seed), "--threads", str(options.threads),
            *options.flags]


def scratch(options: argparse.Namespace) -> "tempfile.TemporaryDirectory[str]":
    """A folder of our own on the disk that is measured, gone at the end, as is a run under way: a
    SIGTERM ends this program by an exception."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    place = options.folder or options.build
    place.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="runs-", dir=place)


def stop_unless_ok(run: Run) -> Run:
    if not run.ok:
        sys.exit(f"{run.name} failed: {run.error_text}")
    return run
