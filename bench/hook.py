#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-hook: what one saved tensor costs in a session that has nothing to move, against identity hooks in Python.

All sides run the same chain of products, forward and backward, on one thread and in one process, in short rounds
(hook_cells.py): plain autograd; `saved_tensors_hooks` with two identity functions; a session of the defaults whose
budget is far above what is used. A side's cost is the lower quartile of its rounds beyond plain's, a pack and unpack;
the session's is all that its user pays: hooks, allocator and the record that `explain` reads. Entering is not counted.
The saved tensors have 64 B, which is below the size floor, 64 KiB and 1 MiB, whole or as fresh views.

value = the session's cost / Python's at 64 B, the worse of whole and views. Holds when that is at most 0.8 and from
64 KiB on the session costs at most 2 us more than Python's hooks; and a step of a GPT of width 256, batch 1, executes
at most 1.005 of plain's user instructions, where the machine lets them be counted. A cell is judged where plain beside plain shows that
the machine is steady enough (steady.py); where one is not, the line says so.
"""

import argparse
import os
import pathlib
import sys
from typing import Any

import common
import steady

BAR = 0.8
BEYOND_BAR_NS = 2000
GPT_BAR = 1.005  # of plain's user instructions
SMALL_BYTES = 64  # below the size floor
# glibc gives large blocks back to the system at once and takes them again page by page, which is no cost of hooks.
KEEP_PAGES = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 33),
              "MALLOC_TOP_PAD_": str(1 << 26)}

Cell = dict[str, Any]


def main() -> None:
    options = parse_arguments()
    python = options.build / "python.path"
    if not python.exists():
        sys.exit(f"hook.py: {options.build} is not built; `make build` builds it")
    measured = common.run_json(
        ["tools/package.sh", options.build, "bench/hook_cells.py", "--seconds", str(options.seconds)],
        cwd=common.ROOT, env={**os.environ, **KEEP_PAGES})
    cells, gpt = measured["cells"], measured["gpt"]
    for cell in cells:
        common.progress(words(cell))
    common.progress(f"a step of a GPT of width 256, batch 1: {gpt['session_over_plain']} of plain's time, "
                    f"{gpt['instructions_over_plain'] or 'not counted here'} of its user instructions")
    judged = [cell for cell in cells if is_steady(cell)]
    small = [cell["session_ns"] / cell["python_ns"] for cell in judged if cell["bytes"] == SMALL_BYTES]
    value = round(max(small), 4) if small else None
    counted = gpt["instructions_over_plain"]
    holds = all(within_bar(cell) for cell in judged) and (counted is None or counted <= GPT_BAR) and all(
        cell["moved_bytes"] == 0 and cell["registered_share"] == (cell["bytes"] != SMALL_BYTES) for cell in cells)
    common.emit("hook", value, "ratio", BAR, holds, {
        "beyond_python_ns": {f"{cell['bytes']} {cell['saved']}": round(cell["session_ns"] - cell["python_ns"])
                             for cell in judged if cell["bytes"] != SMALL_BYTES},
        "beyond_bar_ns": BEYOND_BAR_NS, "cells": cells, "gpt": gpt, "gpt_bar": GPT_BAR,
        "seconds": options.seconds, "machine": common.machine(),
    }, unsteady=len(judged) < len(cells))


def is_steady(cell: Cell) -> bool:
    """Where a bar is in nanoseconds, these have to be told apart, too."""
    low, high = cell["plain_over_plain"]
    is_fine = cell["bytes"] == SMALL_BYTES or (high - low) * cell["plain_ns"] < BEYOND_BAR_NS / 2
    return high - low < steady.NARROW and is_fine


def within_bar(cell: Cell) -> bool:
    if cell["bytes"] == SMALL_BYTES:
        return bool(cell["session_ns"] <= BAR * cell["python_ns"])
    return bool(cell["session_ns"] - cell["python_ns"] <= BEYOND_BAR_NS)


def words(cell: Cell) -> str:
    low, high = cell["plain_over_plain"]
    return (f"{cell['bytes']} B, {cell['saved']}: {cell['session_ns']:.0f} ns in the session, {cell['python_ns']:.0f} ns "
            f"in Python's hooks, plain {cell['plain_ns']:.0f} ns (plain beside plain {low:.4f} to {high:.4f})")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR",
                        default=pathlib.Path("build") / "torch",
                        help="where Spillway is built (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=10, metavar="S", help="of each of the six cells (default "
                        "%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
