#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-hook: what one saved tensor costs in our C++ hooks against identity hooks in Python.

Both sides run the same operators on one thread: a chain of products of small tensors, forward and
backward, in which every product saves two tensors, one of them for the first time. Ours is a session
whose budget is far above what is used and whose size floor is 0: nothing moves, but every tensor is
registered and version-checked (hook_torch_bench.cc). Python's is saved_tensors_hooks with two
identity functions (hook_python.py). Each side subtracts its own time without hooks, so that neither
operators nor the language's loop count; ours is measured in the session, so that its allocator does
not count either (with it: ours_with_session_ns in the detail).
value = the median over interleaved pairs of ours / Python's, per pack and unpack.
"""

import argparse
import os
import pathlib
import sys

import common

BAR = 0.6


def main() -> None:
    options = parse_arguments()
    ours_program = options.build / "bench" / "hook_torch_bench"
    python = torch_python(options.build)
    if not ours_program.exists():
        sys.exit(f"hook.py: {ours_program} is not built; `make build` builds it")
    sizes = ["--products", str(options.products), "--elements", str(options.elements),
             "--rounds", str(options.rounds)]
    script = str(pathlib.Path(__file__).with_name("hook_python.py"))
    measured = common.pairs(
        options.pairs,
        ours=lambda: common.run_json([str(ours_program), *sizes]),
        theirs=lambda: common.run_json([python, script, *sizes]),
        show=lambda number, ours, theirs: (
            f"pair {number}: {ours['hooks_ns']:.0f} ns ours, {theirs['hooks_ns']:.0f} ns Python"))
    ratios = [ours["hooks_ns"] / theirs["hooks_ns"] for ours, theirs in measured]
    value = common.median(ratios)
    holds = value <= BAR and len(measured) >= 5 and all(
        ours["registered_share"] >= 0.99 and ours["moved_bytes"] == 0 for ours, _ in measured)
    common.emit("hook", round(value, 4), "ratio", BAR, holds, {
        "ratio": common.spread(ratios),
        "ours_ns": common.spread([ours["hooks_ns"] for ours, _ in measured]),
        "ours_with_session_ns": common.spread([ours["session_ns"] for ours, _ in measured]),
        "ours_without_hooks_ns": common.spread([ours["without_ns"] for ours, _ in measured]),
        "python_ns": common.spread([theirs["hooks_ns"] for _, theirs in measured]),
        "python_without_hooks_ns": common.spread([theirs["without_ns"] for _, theirs in measured]),
        "packs_per_step": measured[0][0]["packs"],
        "registered_share": min(ours["registered_share"] for ours, _ in measured),
        "pairs": len(measured), "products": options.products, "elements": options.elements,
        "rounds": options.rounds,
        "machine": common.machine(),
    })


def torch_python(build: pathlib.Path) -> str:
    """The Python whose torch the build is against."""
    asked = os.environ.get("SPILLWAY_PYTHON")
    left = build / "python.path"
    return left.read_text().strip() if left.exists() else asked or sys.executable


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR",
                        default=pathlib.Path(common.ROOT) / "build" / "torch",
                        help="where hook_torch_bench is built (default build/torch)")
    parser.add_argument("--pairs", type=int, default=7, metavar="N", help="default %(default)s")
    parser.add_argument("--products", type=int, default=500, metavar="N",
                        help="in a chain (default %(default)s)")
    parser.add_argument("--elements", type=int, default=16, metavar="N",
                        help="of each tensor (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=60, metavar="N",
                        help="chains with hooks, and without, in one process (default %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
