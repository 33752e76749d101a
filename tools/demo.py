#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`make demo`: train a GPT on real text under a third of the memory that plain training takes.

Every run is a process of its own, on the same seed, text and number of threads:

  count         plain, two steps, its allocator counted; only its peak is used
  plain         stock torch, Spillway not loaded, no cap
  plain_capped  nothing may leave (--policy keep_all), under the cap: it must fail and say why
  spillway      saved tensors wait on NVMe, under the same cap: it must give plain's losses

spillway and plain then run a second time, in this order, so that a machine that slows down or
speeds up meanwhile does so for both; a run's seconds a step are the median of its two runs, each
without its first step. Where plain's two runs differ by more than 2 %, the machine is too busy to compare
times: it says so, and judges the rest. Writes demo.json, prints one table, and fails naming what is not as
promised (exit code 1). Where it cannot begin or go on, it says why in one line (exit code 2).
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import sys
from typing import Any, NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import common  # noqa: E402
from train_runs import (MIB, Programs, Run, add_flags, losses_equal, programs, scratch,  # noqa: E402
                        shared_flags, stop, train, usual_seconds)

STEPS, COUNTED_STEPS, LEAST_STEPS = 6, 2, 5
# Some 3 s a step on two cores, for 26 steps in all; saved tensors are nine tenths of its memory.
MODEL = ["--layers", "10", "--width", "256", "--heads", "4", "--batch", "7"]
CAP = "400MiB"
STEP_RATIO_BAR = 1.10
STEADY = 0.02  # how much plain's runs may differ where times are judged
PROCESS_SLACK_BYTES = 64 * MIB
WRITTEN_SHARE = 0.8
STATE_SHARE_BAR = 0.15
STATE_BYTES_A_PARAMETER = 16  # fp32: itself, its gradient, AdamW's two moments
INTERRUPTED = 130


class Demo(NamedTuple):
    cap_bytes: int
    steps: int
    count: Run
    plain: list[Run]      # the first is the one of the table
    capped: Run
    spillway: list[Run]   # as plain

    @property
    def plain_peak_bytes(self) -> int | None:
        return self.count.allocator_peak_bytes

    @property
    def step_ratio(self) -> float | None:
        ours, theirs = usual_seconds(*self.spillway), usual_seconds(*self.plain)
        return ours / theirs if ours and theirs else None

    @property
    def plain_spread(self) -> float | None:
        """By how much of the shortest plain's runs differ; None where fewer than two are known."""
        each = [seconds for run in self.plain if (seconds := usual_seconds(run))]
        return max(each) / min(each) - 1 if len(each) > 1 else None

    @property
    def steady(self) -> bool:
        return self.plain_spread is not None and self.plain_spread <= STEADY


class Runs:
    """Starts one run after the other, and says which of how many begins."""

    def __init__(self, pairs: int, folder: pathlib.Path) -> None:
        self.all, self.begun, self.folder = 2 + 2 * max(pairs, 1), 0, folder

    def run(self, name: str, what: str, command: list[str], flags: list[str]) -> Run:
        self.begun += 1
        print(f"\nrun {self.begun} of {self.all}, {name}: {what}", file=sys.stderr, flush=True)
        return train(name, command, flags, self.folder)


def run_all(options: argparse.Namespace, program: Programs, folder: pathlib.Path) -> Demo:
    flags = shared_flags(options, options.steps)
    nvme = folder / "nvme"
    nvme.mkdir()
    cap = ["--device-budget", options.cap, "--nvme", str(nvme)]
    runs = Runs(options.pairs, folder)

    def plain() -> Run:
        return runs.run("plain", "stock torch, no cap", program.plain, flags)

    def spillway() -> Run:
        return runs.run("spillway", f"under {options.cap}", program.spillway, [*flags, *cap])

    count = runs.run("count", f"{COUNTED_STEPS} steps that count what plain training allocates", program.spillway,
                     [*shared_flags(options, COUNTED_STEPS), "--count-allocations"])
    if not count.ok:
        stop(f"demo: count failed: {count.error_text}")
    if lack := lacking_room(folder, count.allocator_peak_bytes or 0):
        stop(f"demo: {lack}")
    plains = [plain()]
    capped = runs.run("plain_capped", f"nothing may leave, under {options.cap}: it has to fail", program.spillway,
                      [*flags, *cap, "--policy", "keep_all"])
    spillways = [spillway()]
    if options.pairs > 1 and plains[0].ok and spillways[0].ok:
        for turn in range(1, options.pairs):
            for side, run in ((spillways, spillway), (plains, plain))[:: 1 if turn % 2 else -1]:
                side.append(run())
    return Demo(common.parse_size(options.cap), options.steps, count, plains, capped, spillways)


def lacking_room(folder: pathlib.Path, wanted: int) -> str:
    """Why saved tensors may not fit on the disk of `folder`; all that plain training allocates is enough."""
    free = shutil.disk_usage(folder).free
    if free >= wanted:
        return ""
    return f"{folder.parent} has {size(free)} free, and {size(wanted)} are needed; name another disk: --folder DIR"


def broken(demo: Demo) -> list[str]:
    """What is not as promised, in words; empty when all is."""
    faults = [f"{run.name} failed: {run.error_text}"
              for run in [demo.count, *demo.plain, *demo.spillway] if not run.ok]
    faults += broken_refusal(demo.capped)
    if faults and (not demo.count.ok or not demo.plain[0].ok or not demo.spillway[0].ok):
        return faults  # nothing to compare
    peak, cap = demo.plain_peak_bytes, demo.cap_bytes
    if demo.steps < LEAST_STEPS:
        faults.append(f"steps: {demo.steps}, at least {LEAST_STEPS} are needed")
    if 3 * cap > peak:
        faults.append(f"cap: {size(cap)} is more than a third of plain's allocator peak, {size(peak)}")
    state = state_bytes(demo.plain[0])
    if state is not None and state >= STATE_SHARE_BAR * peak:
        faults.append(f"model: parameters, gradients and optimizer state take {size(state)}, "
                      f"{state / peak:.0%} of plain's peak; the bar is {STATE_SHARE_BAR:.0%}")
    for run in [*demo.plain[1:], *demo.spillway]:
        if not losses_equal(demo.plain[0], run):
            faults.append(f"losses: {run.name}'s differ from plain's: {first_difference(demo.plain[0], run)}")
    for run in demo.spillway:
        faults += broken_bounds(run, cap, peak)
    ratio = demo.step_ratio
    if demo.steady and (ratio is None or ratio > STEP_RATIO_BAR):
        faults.append(f"step ratio: {ratio and round(ratio, 3)}; the bar is {STEP_RATIO_BAR}")
    return faults


def unsteady(demo: Demo) -> str:
    """Why times are not judged; empty where they are."""
    if demo.steady:
        return ""
    spread = demo.plain_spread
    why = ("plain ran once, so nothing tells how steady this machine is" if spread is None else
           f"two runs of plain differ by {spread:.0%} (at most {STEADY:.0%} is steady), so this machine is too busy to "
           "compare times; run it again when nothing else runs")
    return f"{why}. The seconds and the ratio are not judged; losses, memory and bytes are"


def broken_bounds(run: Run, cap: int, plain_peak: int) -> list[str]:
    faults = []
    if run.allocator_peak_bytes is None or run.allocator_peak_bytes > cap:
        faults.append(f"allocator peak: {size(run.allocator_peak_bytes)}; the cap is {size(cap)}")
    allowed = (run.baseline_rss_bytes or 0) + 1.10 * cap + PROCESS_SLACK_BYTES
    if run.process_peak_bytes is None or run.process_peak_bytes > allowed:
        faults.append(f"process peak: {size(run.process_peak_bytes)}; baseline "
                      f"{size(run.baseline_rss_bytes)} + 1.10 x cap + 64 MiB is {size(allowed)}")
    least = WRITTEN_SHARE * (plain_peak - cap) * len(run.losses or [])
    if run.bytes_written is None or run.bytes_written < least:
        faults.append(f"bytes written: {size(run.bytes_written)}; at least {size(least)} cannot stay "
                      f"in memory, {WRITTEN_SHARE} x (plain's peak - cap) x steps")
    return faults


def broken_refusal(run: Run) -> list[str]:
    """keep_all under the cap has to fail and say: how many bytes, for what, what would make it fit."""
    if run.ok:
        return ["plain_capped: trained under the cap although nothing may leave the device"]
    text = run.error_text
    reason = re.sub(r"^.*?--device-budget \S+", "", text)  # the flag as typed is not advice
    wanted = {"how many bytes": r"\d[\d.]* ?(bytes|[KMG]i?B)", "what asked for them": r"\w::\w|\bby\b",
              "which flag would make it fit": r"--(policy|device-budget|nvme|host-budget)\b"}
    return [f"plain_capped: its error does not say {what}: {text}"
            for what, pattern in wanted.items() if not re.search(pattern, reason)]


def state_bytes(run: Run) -> int | None:
    parameters = (run.options or {}).get("parameters")
    return parameters and parameters * STATE_BYTES_A_PARAMETER


def first_difference(reference: Run, other: Run) -> str:
    ours, theirs = reference.losses or [], other.losses or []
    for step, (left, right) in enumerate(zip(ours, theirs), 1):
        if left != right or left is None:
            return f"{left} and {right} at step {step}"
    return f"{len(ours)} and {len(theirs)} steps"


def as_json(demo: Demo) -> dict[str, Any]:
    def entry(name: str, runs: list[Run], peak: int | None) -> dict[str, Any]:
        run = runs[0]
        return {"name": name, "ok": run.ok, "error": run.error_text, "losses": run.losses or None,
                "allocator_peak_bytes": peak, "process_peak_bytes": run.process_peak_bytes,
                "bytes_written": run.bytes_written, "bytes_read": run.bytes_read,
                "step_seconds": usual_seconds(*runs)}

    return {"cap_bytes": demo.cap_bytes, "baseline_rss_bytes": demo.spillway[0].baseline_rss_bytes,
            "steady": demo.steady,
            "runs": [entry("plain", demo.plain, demo.plain_peak_bytes),
                     entry("plain_capped", [demo.capped], demo.capped.allocator_peak_bytes),
                     entry("spillway", demo.spillway, demo.spillway[0].allocator_peak_bytes)]}


def table(demo: Demo, result: dict[str, Any]) -> str:
    plain, capped, spillway = result["runs"]
    equal = losses_equal(demo.plain[0], demo.spillway[0])
    ratio = demo.step_ratio
    rows = [["", "cap", "losses", "allocator peak", "process peak", "written", "read", "s/step", "ratio"]]
    for run, cap, losses, against in (
            (plain, "none", f"{len(plain['losses'] or [])} steps", "1"),
            (capped, size(demo.cap_bytes), "failed" if not capped["ok"] else "trained", "-"),
            (spillway, size(demo.cap_bytes), "equal" if equal else "DIFFER",
             "-" if ratio is None else f"{ratio:.3f}" if demo.steady else f"({ratio:.3f})")):
        seconds = run["step_seconds"]
        rows.append([run["name"], cap, losses,
                     *(size(run[key]) for key in ("allocator_peak_bytes", "process_peak_bytes",
                                                  "bytes_written", "bytes_read")),
                     "-" if seconds is None else f"{seconds:.3f}", against])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(row, widths))) for row in rows)


def size(size_bytes: float | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / MIB:,.0f} MiB"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser, CAP)
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N",
                        help=f"a run, at least {LEAST_STEPS} (default %(default)s)")
    parser.add_argument("--pairs", type=int, default=2, metavar="N",
                        help="times that plain and spillway run (default %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("demo.json"), metavar="FILE",
                        help="default %(default)s")
    options = parser.parse_args()
    options.flags = options.flags or MODEL
    return options


def check_arguments(options: argparse.Namespace) -> None:
    """Before minutes of training, what would end it."""
    if options.steps < LEAST_STEPS:
        stop(f"demo: --steps {options.steps}: at least {LEAST_STEPS} are needed")
    try:
        common.parse_size(options.cap)
    except ValueError:
        stop(f"demo: --cap: '{options.cap}' is not a size; write it as {CAP}")
    place = options.json if options.json.exists() else options.json.absolute().parent
    if options.json.is_dir() or not os.access(place, os.W_OK):
        stop(f"demo: --json: {options.json} cannot be written")


def show(demo: Demo, json_file: pathlib.Path) -> int:
    """Writes the file, prints the table and what is not as promised; the exit code."""
    result = as_json(demo)
    json_file.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{table(demo, result)}\n\nplain_capped: {demo.capped.error_text}\n(all of it: {json_file})")
    if why := unsteady(demo):
        print(f"unsteady  {why}")
    faults = broken(demo)
    for fault in faults:
        print(f"BROKEN  {fault}")
    if not faults:
        print(f"ok: plain's losses to the last bit, under {size(demo.cap_bytes)} where plain takes "
              f"{size(demo.plain_peak_bytes)}")
    return 1 if faults else 0


def main() -> int:
    options = parse_arguments()
    check_arguments(options)
    program = programs(options.build)
    try:
        with scratch(options) as folder:
            demo = run_all(options, program, pathlib.Path(folder))
        return show(demo, options.json)
    except KeyboardInterrupt:
        print("\ndemo: interrupted; its folder is removed", file=sys.stderr)
        return INTERRUPTED
    except OSError as failure:
        stop(f"demo: {failure}")


if __name__ == "__main__":
    sys.exit(main())
