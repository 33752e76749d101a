#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The first thing to run on a GPU, with its torch alone and nothing built: one JSON line.

A product of matrices against the CPU's; pinning, by one thread and after threads have touched the pages; copies both
ways; a request above a limit, which has to be refused as torch refuses it, and the next one to be granted. Without a
GPU (`--device cpu`, the rehearsal) only the product is made.
"""

import argparse
import concurrent.futures
import json
import mmap
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

GIB = 1 << 30
SIDE = 1024
THREADS = 8


def seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def product_is_right(device: torch.device) -> bool:
    a, b = (torch.randn(SIDE, SIDE) for _ in range(2))
    made = (a.to(device) @ b.to(device)).cpu()
    return torch.allclose(made, a @ b, rtol=1e-2, atol=1e-1)


def pinned_after_touch() -> Callable[[], None]:
    """Registers a GiB whose pages threads have taken from the system before."""
    memory = mmap.mmap(-1, GIB)
    whole = torch.frombuffer(memory, dtype=torch.uint8)

    def touch(part: torch.Tensor) -> None:
        part[::mmap.PAGESIZE] = 1

    def register() -> None:
        with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(touch, whole.chunk(THREADS)))
        failed = torch.cuda.cudart().cudaHostRegister(whole.data_ptr(), GIB, 0)
        if int(failed) != 0:
            raise RuntimeError(f"cudaHostRegister failed: {failed}")
        torch.cuda.cudart().cudaHostUnregister(whole.data_ptr())
    return register


def links(device: torch.device) -> dict[str, float]:
    host, there = torch.empty(GIB, dtype=torch.uint8, pin_memory=True), torch.empty(GIB, dtype=torch.uint8, device=device)
    there.copy_(host)
    return {"to_device_gib_per_s": 1 / seconds(lambda: there.copy_(host, non_blocking=True)),
            "to_host_gib_per_s": 1 / seconds(lambda: host.copy_(there, non_blocking=True))}


def at_the_limit(device: torch.device) -> dict[str, Any]:
    """Torch's own refusal, and its counters after what fits was granted; raises where that is not."""
    torch.cuda.empty_cache()
    all_bytes = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(4 * GIB / all_bytes, device)
    try:
        torch.empty(8 * GIB, dtype=torch.uint8, device=device)
        refused = False
    except torch.OutOfMemoryError:
        refused = True
    torch.empty(GIB, dtype=torch.uint8, device=device)
    torch.cuda.set_per_process_memory_fraction(1.0, device)
    known = torch.cuda.memory_stats(device)
    return {"refused": refused, "ooms": known["num_ooms"], "retries": known["num_alloc_retries"]}


def on_gpu(device: torch.device) -> dict[str, Any]:
    torch.cuda.init()
    # One after the other: a pinned block that is freed is kept, and would be given again.
    return {"pin_seconds_a_gib": seconds(lambda: torch.empty(GIB, dtype=torch.uint8, pin_memory=True)),
            "pin_touched_seconds_a_gib": seconds(pinned_after_touch()), **links(device),
            "at_the_limit": at_the_limit(device)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="or cpu (default %(default)s)")
    options = parser.parse_args()
    device = torch.device(options.device)
    line: dict[str, Any] = {"kind": "first light", "device": options.device, "error": None}
    try:
        line["product_is_right"] = product_is_right(device)
        if device.type != "cpu":
            line |= on_gpu(device)
            line["error"] = None if line["at_the_limit"]["refused"] else "a request above the limit was not refused"
        if not line["product_is_right"]:
            line["error"] = "a product of matrices differs from the CPU's"
    except RuntimeError as failure:
        line["error"] = str(failure).splitlines()[0]
    print(json.dumps(line))
    return int(line["error"] is not None)


if __name__ == "__main__":
    sys.exit(main())
