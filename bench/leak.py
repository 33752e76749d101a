#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-leak: does a long run grow?

Trains a tiny model under a cap that makes tensors leave in every step, and looks at the process from
outside: from step 50 on, and again from step 1,000 on, it is stopped at each of ten steps while
/proc is read. value = growth, between the medians, of resident memory plus the bytes of files in the
NVMe folder (unlinked files that the process holds open included). Of resident memory the larger of two
growths counts, all of it and the anonymous part: the system may take pages of libtorch's code back
meanwhile, which must hide nothing. Holds when the value is at most 8 MiB, the open descriptors are equal
in number, and bytes were moved in every step.

The program is given a pseudo-terminal, because it shows every step on a terminal only.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import common
import train_runs

BAR_BYTES = 8 * train_runs.MIB
TINY = ["--layers", "2", "--heads", "4", "--width", "64", "--sequence", "128", "--batch", "4",
        "--vocab-size", "256"]
SAMPLES = 10
STEP = re.compile(rb"step (\d+)/\d+")


class Sample(NamedTuple):
    resident_bytes: int
    anonymous_bytes: int
    file_bytes: int
    files: int
    descriptors: int


def main() -> None:
    options = parse_arguments()
    program = train_runs.programs(options.build)
    first, last = options.first, options.last
    with train_runs.scratch(options) as name:
        folder = pathlib.Path(name)
        cap = options.cap or cap_that_moves(options, program.spillway, folder)
        nvme = folder / "nvme"
        nvme.mkdir()
        steps = last + SAMPLES + 20  # the process still trains when the last sample is taken
        results = folder / "leak.json"
        command = [*program.spillway, *model(options, steps), "--device-budget", cap,
                   "--nvme", str(nvme), "--json", str(results)]
        wanted = {*range(first, first + SAMPLES), *range(last, last + SAMPLES)}
        samples = watch(command, nvme, wanted)
        run = json.loads(results.read_text())
    early = [s for step, s in samples.items() if step < first + SAMPLES]
    late = [s for step, s in samples.items() if step >= last]
    if len(early) < SAMPLES // 2 or len(late) < SAMPLES // 2:
        sys.exit(f"only {len(early)} and {len(late)} steps were seen")
    report(options, cap, early, late, run)


def report(options: argparse.Namespace, cap: str, early: list[Sample], late: list[Sample],
           run: dict) -> None:
    def grown(field: str) -> int:
        return int(common.median([getattr(s, field) for s in late]) -
                   common.median([getattr(s, field) for s in early]))

    growth = max(grown("resident_bytes"), grown("anonymous_bytes")) + grown("file_bytes")
    moved = run["report"]["stored_bytes"]
    steps = len(run["losses"])
    descriptors = {s.descriptors for s in early} | {s.descriptors for s in late}
    # 64 KiB is the least that may be moved at all: less in a step is no moving in every step.
    # And a file that holds nothing is one that was not found.
    holds = (growth <= BAR_BYTES and grown("descriptors") == 0 and moved >= steps * 65536 and
             min(s.file_bytes for s in early) > 0)
    common.emit("leak", growth, "bytes", BAR_BYTES, holds, {
        "resident_growth_bytes": grown("resident_bytes"),
        "anonymous_growth_bytes": grown("anonymous_bytes"),
        "file_growth_bytes": grown("file_bytes"),
        "descriptors_first": common.spread([s.descriptors for s in early]),
        "descriptors_last": common.spread([s.descriptors for s in late]),
        "descriptors_seen": sorted(descriptors),
        "named_files_first": max(s.files for s in early),
        "named_files_last": max(s.files for s in late),
        "resident_first_bytes": common.spread([s.resident_bytes for s in early]),
        "resident_last_bytes": common.spread([s.resident_bytes for s in late]),
        "file_first_bytes": common.spread([s.file_bytes for s in early]),
        "file_last_bytes": common.spread([s.file_bytes for s in late]),
        "from_step": options.first, "to_step": options.last, "samples": [len(early), len(late)],
        "cap": cap, "stored_bytes_per_step": moved // steps,
        "loaded_bytes_per_step": run["report"]["loaded_bytes"] // steps,
        "machine": common.machine(),
    })


def model(options: argparse.Namespace, steps: int) -> list[str]:
    return [*train_runs.shared_flags(options, steps), *(TINY if not options.flags else [])]


def cap_that_moves(options: argparse.Namespace, command: list[str], folder: pathlib.Path) -> str:
    """Three fifths of what the model takes without a cap."""
    count = train_runs.stop_unless_ok(train_runs.train(
        "count", command, [*model(options, 3), "--count-allocations"], folder))
    return f"{count.allocator_peak_bytes * 3 // 5 >> 10}KiB"


def watch(command: list[str], nvme: pathlib.Path, wanted: set[int]) -> dict[int, Sample]:
    """Runs to the end, sampling at the steps in `wanted` (a fast step may be missed)."""
    terminal, theirs = os.openpty()
    samples: dict[int, Sample] = {}
    tail = b""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        try:
            while chunk := read(terminal):
                tail = (tail + chunk)[-4096:]
                shown = STEP.findall(tail)
                step = int(shown[-1]) if shown else 0
                if step in wanted and step not in samples:
                    samples[step] = sample(child.pid, nvme)
                if step and step % 100 == 0:
                    common.progress(f"step {step}")
                tail = tail[tail.rfind(b"\r") + 1:]
        except BaseException:
            child.kill()
            raise
    os.close(terminal)
    if child.returncode != 0:
        sys.exit(f"leak.py: exit code {child.returncode}: {tail.decode(errors='replace').strip()}")
    return samples


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def sample(pid: int, nvme: pathlib.Path) -> Sample:
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for_stop(pid)
        descriptors = os.listdir(f"/proc/{pid}/fd")
        named = [file.stat() for file in nvme.rglob("*") if file.is_file()]
        held = 0
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                path = f"/proc/{pid}/fd/{descriptor}"
                if os.readlink(path).startswith(str(nvme.resolve())) and os.stat(path).st_nlink == 0:
                    held += os.stat(path).st_blocks * 512
        return Sample(*resident_bytes(pid), held + sum(file.st_blocks * 512 for file in named),
                      len(named), len(descriptors))
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_for_stop(pid: int) -> None:
    """Until every thread stands; I/O in flight may still end."""
    for _ in range(1000):
        states = []
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
        if all(state in "Tt" for state in states):
            return
        time.sleep(0.001)


def resident_bytes(pid: int) -> tuple[int, int]:
    """All of it, and the anonymous part. Exact, as the counters of /proc/<pid>/status are not."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kib["Rss"] << 10, kib["Anonymous"] << 10


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    train_runs.add_flags(parser, cap=None)
    parser.add_argument("--cap", help="device bytes (default: three fifths of what the model takes)")
    parser.add_argument("--first", type=int, default=50, metavar="STEP", help="default %(default)s")
    parser.add_argument("--last", type=int, default=1000, metavar="STEP", help="default %(default)s")
    return parser.parse_args()


if __name__ == "__main__":
    main()
