#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-peers: Spillway beside what else a PyTorch user has on a CPU: memory, time, bytes moved, exactness.

One model and batch (peers/model.py), each configuration in a fresh process, all of them in turns, the order
turned round every round (peers/train.py): plain; checkpoint of every and of every second block; selective
checkpoint that saves products and attention; torch_remat; Spillway under a quarter, a half, three quarters
of the peak that plain has in this run, and, with no drive, so that it recomputes, under 30, 50 and 75 %. A run's time is the median of its steps without the first, a ratio is
taken within a round; rounds are added until plain is as quick in one as in the next (steady.py), or none more
ends in `--minutes`: then no time is judged. Losses and the last gradients are compared with plain's bit by bit. Before that, what a
saved tensor costs in hooks that move nothing (peers/hooks.py), a session with nothing to do, and the import.
value = the step under a quarter of plain's peak / plain's. A Markdown table, then one JSON line. Exit code 1
where a bar is missed. What cannot run is a row that says so, and a bar missed.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import common
import steady
import train_runs
from peers_table import MOVES, SHARES, STEP_BAR, Rows, bars, row, seconds, tables

HERE = pathlib.Path(__file__).resolve().parent / "peers"
PEERS = ("plain", "checkpoint", "checkpoint_2nd", "sac", "torch_remat")
SYSTEMS = (*PEERS, *SHARES)
WRONG = "rounded"  # not exact, on purpose; only where it is asked for
SIZES = ("layers", "heads", "width", "batch", "sequence", "vocab")
QUICK = {"rounds": 1, "minutes": 0, "steps": 3, "layers": 4, "heads": 2, "width": 64, "batch": 16, "sequence": 128,
         "idle_batch": 4, "idle_sequence": 128, "idle_steps": 3, "idle_pairs": 1, "idle_turns": 6,
         "hook_processes": 1, "hook_turns": 2, "hook_products": 50, "import_pairs": 1, "threads": 1}
IDLE_BUDGET = 2 << 30
END_S = 900  # a process that takes longer is a failure


class Children:
    """Starts the measured programs."""

    def __init__(self, options: argparse.Namespace, nvme: pathlib.Path) -> None:
        self.options, self.nvme = options, nvme
        self.python = common.torch_python(options.build)
        path = str(options.build / "python")
        self.environment = os.environ | {"PYTHONPATH": f"{path}:{HERE.parent}", "OMP_NUM_THREADS": str(options.threads)}

    def run(self, *command: str) -> dict[str, Any]:
        """The last line as JSON, or why there is none."""
        try:
            done = subprocess.run([self.python, *command], env=self.environment, capture_output=True,
                                  text=True, check=False, timeout=END_S)
        except subprocess.TimeoutExpired:
            return {"error": f"no end within {END_S} s"}
        if done.returncode == 0:
            return json.loads(done.stdout.strip().splitlines()[-1])
        text = done.stderr.strip().splitlines() or ["said nothing"]
        return {"error": f"exit code {done.returncode}: {text[-1]}"}

    def train(self, system: str, sizes: dict[str, int], steps: int,
              more: Sequence[str] = ()) -> dict[str, Any]:
        flags = {**sizes, "steps": steps, "seed": self.options.seed, "threads": self.options.threads}
        typed = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        return self.run(str(HERE / "train.py"), "--system", system, *typed, *more)

    def seconds(self, program: str) -> float:
        begin = time.perf_counter()
        common.run([self.python, "-c", program], env=self.environment)
        return time.perf_counter() - begin


def side_by_side(children: Children, minutes: float) -> Rows:
    """All systems, in turns. The first round also counts the allocator's peak, in a step not timed."""
    options = children.options
    sizes = {name: getattr(options, name) for name in SIZES}
    counted = children.train("plain", sizes, 2, ["--count"])
    if "error" in counted:
        sys.exit(f"plain failed: {counted['error']}")
    peak = counted["allocator_peak_bytes"]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in options.systems}
    begin, number = time.monotonic(), 0
    while not (steady.is_late(begin, number, minutes) or (number >= options.rounds and is_steady(runs["plain"]))):
        for name in options.systems if number % 2 == 0 else reversed(options.systems):
            if name in SHARES:
                drive = ["--nvme", str(children.nvme)] if name in MOVES else []
                flags = ["--budget", str(int(SHARES[name] * peak)), *drive]
            else:
                flags = ["--count"] if number == 0 else []
            run = children.train(name if name not in SHARES else "plain", sizes, options.steps, flags)
            runs[name].append(run)
            text = run.get("error") or f"{seconds(run):.3f} s a step"
            common.progress(f"round {number + 1}: {name}: {text}")
        number += 1
    return Rows(runs, peak)


def is_steady(plain: list[dict[str, Any]]) -> bool:
    """Whether plain is as quick in one round as in the next."""
    if any("error" in run for run in plain):
        return True  # nothing to wait for
    ratios = [seconds(after) / seconds(before) for before, after in itertools.pairwise(plain)]
    return steady.is_steady(ratios)


def idle_cost(children: Children) -> dict[str, Any]:
    """A session that has nothing to do against no session, on small steps, which show its cost best."""
    options = children.options
    sizes = {name: getattr(options, name) for name in SIZES}
    sizes |= {"batch": options.idle_batch, "sequence": options.idle_sequence}

    def run(*flags: str, steps: int = options.idle_steps) -> dict[str, Any]:
        done = children.train("plain", sizes, steps, flags)
        return done if "error" not in done else sys.exit(f"idle session: {done['error']}")

    turns = run("--alternate", "--budget", str(IDLE_BUDGET), steps=options.idle_turns)
    ratios = [mine / plain for mine, plain in zip(turns["ours_seconds"], turns["plain_seconds"], strict=True)]
    common.progress(f"idle: {common.median(ratios):.4f} of plain, the median of {len(ratios)} steps")

    measured = common.pairs(
        options.idle_pairs, lambda: run("--budget", str(IDLE_BUDGET)), lambda: run("--count"), warm_up=0,
        show=lambda i, ours, plain: f"idle {i}: {seconds(ours) / seconds(plain):.4f} of plain")
    ours = [pair[0] for pair in measured]
    counted = measured[0][1]["allocator_peak_bytes"]
    return {
        "ratio": common.spread(ratios),
        "plain_step_s": common.spread([seconds(plain) for _, plain in measured]),
        "enter_us": common.spread([run["enter_s"] * 1e6 for run in ours]),
        "saved_tensors_per_step": ours[0]["saved_tensors"] / options.idle_steps,
        "stored_bytes": max(run["stored_bytes"] for run in ours),
        "losses_equal": all(mine["losses"] == plain["losses"] for mine, plain in measured),
        # Two ways to count the same steps: how far the peaks in this table can be compared.
        "session_peak_over_counted": round(ours[0]["allocator_peak_bytes"] / counted, 4),
    }


def hook_costs(children: Children) -> dict[str, Any]:
    """ns a saved tensor, of tensors that are too small for Spillway to move and of such that it would."""
    options = children.options
    flags = {"--products": options.hook_products, "--turns": options.hook_turns}
    typed = [str(word) for item in flags.items() for word in item]
    runs = [children.run(str(HERE / "hooks.py"), *typed, "--elements", "16", str(options.hook_elements))
            for _ in range(options.hook_processes)]
    for run in runs:
        if "error" in run:
            return run
    return {"processes": len(runs), "sizes": [
        {**first, "ns": {name: common.spread([run["sizes"][i]["ns"][name] for run in runs])
                         for name in first["ns"]}}
        for i, first in enumerate(runs[0]["sizes"])]}


def import_cost(children: Children) -> dict[str, Any]:
    """What `import spillway` adds to `import torch`: fresh processes in turns."""
    pairs = children.options.import_pairs
    measured = common.pairs(pairs, lambda: children.seconds("import torch; import spillway"),
                            lambda: children.seconds("import torch"), warm_up=min(1, pairs - 1))
    return {"added_s": common.spread([both - alone for both, alone in measured]),
            "torch_s": common.spread([alone for _, alone in measured]), "pairs": len(measured)}


def main() -> None:
    options = parse_arguments()
    deadline = common.Deadline(options.minutes)
    with train_runs.scratch(options) as name:
        nvme = pathlib.Path(name) / "nvme"
        nvme.mkdir()
        children = Children(options, nvme)
        costs = {"hooks": hook_costs(children), "idle": idle_cost(children), "import": import_cost(children)}
        rows = side_by_side(children, deadline.minutes_left())
        detail = {"systems": {name: row(name, rows) for name in options.systems}, **costs}
    calm = is_steady(rows.runs["plain"])
    detail["bars"] = bars(detail["systems"], detail["hooks"], detail["idle"], detail["import"],
                          len(rows.runs["plain"]), calm)
    print(tables(detail), flush=True)
    value = detail["bars"]["step at a quarter of plain's peak"]["value"]
    common.emit("peers", value, "ratio", STEP_BAR, all(bar["holds"] for bar in detail["bars"].values()), {
        **detail,
        "plain_peak_bytes": rows.plain_peak_bytes,
        "flags": {name: flag for name, flag in vars(options).items() if isinstance(flag, int)},
        "versions": versions(children),
        "machine": common.machine(),
    }, unsteady=not calm)


def versions(children: Children) -> dict[str, str]:
    program = ("import importlib.metadata as m, json; print(json.dumps({d.metadata['Name']: d.version "
               "for d in m.distributions() if d.metadata['Name'] in ('torch', 'torch_remat', 'trl')}))")
    return children.run("-c", program)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    train_runs.add_flags(parser, cap=None)
    parser.add_argument("--systems", type=lambda text: text.split(","), default=list(SYSTEMS), metavar="A,B",
                        help=f"plain first; default all: {','.join(SYSTEMS)}; {WRONG} is wrong on purpose")
    parser.add_argument("--quick", action="store_true",
                        help="a tiny model, once: shows that all of it works")
    numbers = {
        "rounds": (5, "of all systems, at least"), "minutes": (common.MINUTES, "in all: no round is begun that would not end in them"), "steps": (3, "a run"),
        "layers": (10, "of the model"), "heads": (4, ""), "width": (256, ""), "batch": (7, "lines"),
        "sequence": (1024, "bytes a line"), "vocab": (256, ""),
        "idle-batch": (1, "of the session with nothing to do"), "idle-sequence": (256, ""),
        "idle-steps": (20, ""), "idle-pairs": (2, ""), "idle-turns": (300, "of both, a step each"),
        "hook-processes": (5, ""), "hook-turns": (20, "in each"), "hook-products": (500, "in a chain"),
        "hook-elements": (1 << 14, "of a large tensor"), "import-pairs": (9, ""),
    }
    for name, (number, what) in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=number, metavar="N",
                            help=f"{what} (default {number})")
    options = parser.parse_args()
    if options.quick:
        vars(options).update(QUICK)
    unknown = set(options.systems) - {*SYSTEMS, WRONG}
    if unknown or options.systems[:1] != ["plain"]:
        parser.error(f"--systems: plain first, then any of {', '.join(SYSTEMS[1:])}, {WRONG}")
    return options


if __name__ == "__main__":
    main()
