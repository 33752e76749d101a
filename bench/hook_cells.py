# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Python's side of bench-hook: saved_tensors_hooks with two identity functions. Prints one JSON line.

Run by the Python whose torch is measured. Same chain and flags as hook_torch_bench.cc.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch


def chain(products: int, elements: int) -> torch.Tensor:
    """Products of the two values before: each saves one new value and one saved before."""
    a = torch.ones(elements, requires_grad=True)
    b = torch.ones(elements, requires_grad=True)
    for _ in range(products):
        a, b = b, a * b
    return b


def step_ns(products: int, elements: int, hooks: contextlib.AbstractContextManager) -> int:
    begin = time.perf_counter_ns()
    with hooks:
        end = chain(products, elements)
    end.backward(torch.ones(elements))
    return time.perf_counter_ns() - begin


def identity_hooks() -> contextlib.AbstractContextManager:
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for flag in ("--products", "--elements", "--rounds"):
        parser.add_argument(flag, type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    products, elements = options.products, options.elements
    with_hooks, without = [], []
    for turn in range(options.rounds + options.rounds // 4 + 1):
        hooked = step_ns(products, elements, identity_hooks())
        plain = step_ns(products, elements, contextlib.nullcontext())
        if turn > options.rounds // 4:  # the first fifth warms up
            with_hooks.append(hooked)
            without.append(plain)
    packs = 2 * products
    print(json.dumps({
        "hooks_ns": statistics.median(h - p for h, p in zip(with_hooks, without)) / packs,
        "without_ns": statistics.median(without) / packs,
        "packs": packs,
    }))


if __name__ == "__main__":
    main()
