# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Steps of well-known models, foretold by the program: no run, no torch, no clock. For the benches that compare policies.

A `Step` names a command, `spillway trace --model ...`; its traces and tables are made in a scratch folder.
"""

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

GIB = 1 << 30
SHEETS = pathlib.Path(__file__).resolve().parent.parent / "src" / "machine" / "data_sheets"
POLICY = re.compile(r"^  ([a-z0-9_]+): ", re.MULTILINE)
AT_RUN_TIME = ("online", "delta")  # these make no plan; `compare` foretells them, too


class Step(NamedTuple):
    model: str
    machine: str
    batch: int
    dtype: str = "float32"
    more: tuple[str, ...] = ()

    def flags(self) -> list[str]:
        kind = [] if self.dtype == "float32" else ["--dtype", self.dtype]
        return ["--model", self.model, "--batch", str(self.batch), *kind, "--machine", self.machine, *self.more]

    def command(self, rest: str) -> str:
        """What tells the same in a shell."""
        return f"spillway trace {' '.join(self.flags())} > step.json; spillway {rest}"


class Row(NamedTuple):
    """A policy under a budget."""
    policy: str
    budget_bytes: int
    refusal: str
    slowdown: float  # step / compute alone; 0 when refused
    peak_bytes: int
    stored_bytes: int
    recomputed_bytes: int
    average_bytes: int = 0        # of the device, over the step's time
    average_saved_bytes: int = 0  # of saved tensors alone

    @property
    def runs(self) -> bool:
        return not self.refusal


class Comparison(NamedTuple):
    compute_ns: int
    peak_bytes: int   # with nothing moved
    floor_bytes: int  # the smallest budget that works
    rows: list[Row]


class Program:
    """`spillway` of a build folder, with a folder to write to."""

    def __init__(self, build: pathlib.Path, folder: pathlib.Path) -> None:
        self.path = build / "bin" / "spillway"
        if not self.path.exists():
            stop(f"{self.path} is missing: run make build")
        self.folder = folder

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(self.path), *words], capture_output=True, text=True, check=False)

    def _output(self, *words: str) -> str:
        done = self._run(*words)
        if done.returncode:
            stop(f"spillway {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def policies(self) -> list[str]:
        """Those that move, as `compare` takes them: at run time, then by a plan."""
        return [*AT_RUN_TIME, *POLICY.findall(self._output("plan", "--help"))]

    def trace(self, step: Step) -> pathlib.Path:
        """The same file for the same step."""
        path = self.folder / ("".join(step.flags()) + ".json")
        if not path.exists():
            path.write_text(self._output("trace", *step.flags()), encoding="utf-8")
        return path

    def compare(self, step: Step, policies: Sequence[str], budgets: Sequence[int], more: Sequence[str] = ()) -> Comparison:
        """Every policy under every budget, in bytes; `more`: flags of `compare`."""
        wanted = ["--budgets", *map(str, budgets)] if budgets else []
        return self._table("compare", step, ["--policies", *policies, *wanted, *more])

    def fit(self, step: Step, policy: str, more: Sequence[str] = ()) -> Comparison:
        """A policy under budgets from the peak down to the smallest that works."""
        return self._table("fit", step, ["--policy", policy, *more])

    def plan(self, step: Step, policy: str, device_bytes: int) -> str:
        """The plan as text; empty where there is none."""
        done = self._run("plan", str(self.trace(step)), step.machine, "--policy", policy, "--device-budget", str(device_bytes))
        return done.stdout if done.returncode == 0 else ""

    def _table(self, command: str, step: Step, words: Sequence[str]) -> Comparison:
        path = self.folder / "table.json"
        self._output(command, str(self.trace(step)), step.machine, *words, "--json", str(path))
        read = json.loads(path.read_text(encoding="utf-8"))
        compute = read["compute_ns"]
        rows = [Row(row["policy"].partition(":")[0], row["device_bytes"], row["refusal"],
                    0.0 if row["refusal"] else row["step_ns"] / compute, row["peak_bytes"], row["stored_bytes"],
                    row["recomputed_bytes"], row["average_bytes"], row["average_saved_bytes"]) for row in read["rows"]]
        return Comparison(compute, read["peak_bytes"], read["floor_bytes"], rows)


def memory_of(machine: str) -> int:
    """Bytes of the device, as the data sheet says."""
    sheet = json.loads((SHEETS / f"{machine}.json").read_text(encoding="utf-8"))
    [size] = [tier["capacity_bytes"] for tier in sheet["tiers"] if tier["pool"] == "device"]
    return int(size)


def stop(why: str) -> NoReturn:
    """Nothing to tell: one line, exit code 2."""
    print(why, file=sys.stderr, flush=True)
    sys.exit(2)
