# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a saved tensor costs in each system's hooks where nothing moves. Prints one JSON line.

A chain of products, each of which saves two tensors, forward and backward; all systems in turns in one
process, and each less the same chain without its hooks. Spillway is measured in its session ("hooks"), and
against stock torch ("session": its allocator and entering it, too). Tensors of --elements floats: from 64
KiB on Spillway registers them to be moved, below that it passes them on, version-checked.
"""

import argparse
import contextlib
import importlib.util
import json
import pathlib
import statistics
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import spillway
import torch
from hook_cells import identity_hooks, whole

Hooks = Callable[[], contextlib.AbstractContextManager[Any]]


class Sizes(NamedTuple):
    products: int
    elements: int


def step_ns(sizes: Sizes, hooks: Hooks = contextlib.nullcontext) -> int:
    """Backward is inside, where TRL wants it; hooks of the others do not see the difference."""
    begin = time.perf_counter_ns()
    with hooks():
        whole(sizes.products, sizes.elements).backward(torch.ones(sizes.elements))
    return time.perf_counter_ns() - begin


def trl_module() -> ModuleType:
    """TRL's one file, without the package around it, for a CPU that stands for an accelerator."""
    package = importlib.util.find_spec("trl")
    if package is None:
        raise ModuleNotFoundError("trl is not installed")
    file = pathlib.Path(package.submodule_search_locations[0]) / "models" / "activation_offloading.py"
    spec = importlib.util.spec_from_file_location("activation_offloading", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cpu")
    for name in ("wait_stream", "wait_event", "record_event", "synchronize"):
        if not hasattr(torch.cpu.Stream, name):
            setattr(torch.cpu.Stream, name, lambda *_, **__: None)
    return module


def trl(module: ModuleType, streams: bool) -> Hooks:
    """Nothing is large enough to move, so that no copy counts."""
    context = module.OffloadActivations(use_pin_memory=False, use_streams=streams, min_offload_size=1 << 40)
    return lambda: context


def in_session(sizes: Sizes) -> dict[str, float]:
    """Steps in a session that has nothing to do: without recording, and with."""
    session = spillway.session(torch.nn.Linear(1, 1), device_budget="2GiB")
    with session:
        pass  # the first time it looks for optimizers in the whole process
    step_ns(sizes)  # the arena's pages are touched for the first time
    without = step_ns(sizes)
    recorded = step_ns(sizes, lambda: session)
    report = session.report()
    if report["stored_bytes"]:
        raise RuntimeError("something was moved")
    registered = 1 - report["passed_tensors"] / report["saved_tensors"]
    session.close()
    return {"hooks": recorded - without, "recorded": recorded, "registered_share": registered}


def costs(sizes: Sizes, turns: int, python_hooks: dict[str, Hooks]) -> dict[str, Any]:
    measured: list[dict[str, float]] = []
    for turn in range(turns + turns // 4 + 1):
        stock = step_ns(sizes)
        now = {name: step_ns(sizes, hooks) - stock for name, hooks in python_hooks.items()}
        ours = in_session(sizes)
        now |= {"spillway": ours["hooks"], "spillway_session": ours["recorded"] - stock, "without": stock}
        if turn > turns // 4:  # the first fifth warms up
            measured.append(now)
    packs = 2 * sizes.products
    return {"tensor_bytes": 4 * sizes.elements, "registered_share": ours["registered_share"],
            "ns": {name: statistics.median(turn[name] for turn in measured) / packs for name in measured[0]}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for flag in ("--products", "--turns"):
        parser.add_argument(flag, type=int, required=True)
    parser.add_argument("--elements", type=int, nargs="+", required=True, help="of each saved tensor")
    options = parser.parse_args()
    torch.set_num_threads(1)
    module = trl_module()
    python_hooks = {"python_identity": identity_hooks, "trl_one_stream": trl(module, False),
                    "trl_two_streams": trl(module, True)}
    print(json.dumps({"sizes": [costs(Sizes(options.products, elements), options.turns, python_hooks)
                                for elements in options.elements]}))


if __name__ == "__main__":
    main()
