# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own databases: every operator and every module of torch.testing._internal, forward, backward and double
backward, with all that autograd saved moved away before each backward, beside plain autograd bit by bit. A few samples
of each; `make test-operators` (SPILLWAY_SAMPLES=all) takes every one."""

import collections
import copy
import gc
import os
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import spillway
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_flatten, tree_map_only

import same_bits

ALL = os.environ.get("SPILLWAY_SAMPLES", "") == "all"
SAMPLES = 10_000 if ALL else 2
BUDGET = 64 << 20

Body = Callable[[list[torch.Tensor]], Any]

# Which are not deterministic, or take minutes, and are none of autograd's concern.
LEFT_OUT = {
    "empty": "what is in fresh memory", "empty_like": "what is in fresh memory",
    "empty_permuted": "what is in fresh memory", "empty_strided": "what is in fresh memory",
    "new_empty": "what is in fresh memory", "new_empty_strided": "what is in fresh memory",
    "resize_": "what is in fresh memory", "resize_as_": "what is in fresh memory"}


def tensors(value: Any) -> list[torch.Tensor]:
    return [each for each in tree_flatten(value)[0] if isinstance(each, torch.Tensor)]


def digest(value: Any) -> list[Any]:
    """Of strided tensors their bits, of others what torch prints."""
    return [(tuple(each.shape), str(each.dtype), same_bits.bits([each])[0])
            if each.layout is torch.strided and not each.is_quantized and type(each) in (torch.Tensor, torch.nn.Parameter)
            else str(each) for each in (found.detach().cpu().resolve_conj().resolve_neg() for found in tensors(value))]


def ones_like(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.linspace(0.5, 1.5, each.numel(), dtype=torch.float64).to(each.dtype).reshape(each.shape).to(each.device)
            for each in outputs]


def derivatives(body: Body, leaves: list[torch.Tensor], push_out: Callable[[], None]) -> Iterator[Any]:
    """What comes of the forward, of its backward and of the backward of that, as far as there is one."""
    torch.manual_seed(7)
    result = body(leaves)
    yield digest(result)
    outputs = [each for each in tensors(result) if each.requires_grad and each.layout is torch.strided]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not outputs or not wanted:
        return
    push_out()
    first = torch.autograd.grad(outputs, wanted, ones_like(outputs), create_graph=True, allow_unused=True)
    yield digest(first)
    again = [each for each in first if each is not None and each.requires_grad and each.layout is torch.strided]
    if again:
        push_out()
        yield digest(torch.autograd.grad(again, wanted, ones_like(again), allow_unused=True))


def outcome(body: Body, leaves: list[torch.Tensor], push_out: Callable[[], None] = lambda: None) -> list[Any]:
    """All of it, up to the first error, whose first line counts, too."""
    seen: list[Any] = []
    try:
        for each in derivatives(body, leaves, push_out):
            seen.append(each)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - plain autograd's is expected of the session, too
        seen.append(type(error).__name__)
    return seen


class Databases(same_bits.Case):
    device = "cpu"
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.complex64)
    samples = SAMPLES
    least = (500, 60)  # operators and modules that are compared
    options: dict[str, Any] = {"nvme_budget": "256MiB"}

    def setUp(self) -> None:
        super().setUp()
        warnings.simplefilter("ignore")
        self.session = self.open(torch.nn.Linear(1, 1).to(self.device), BUDGET, min_tensor_bytes=1, **self.options)
        self.counts: collections.Counter[str] = collections.Counter()
        self.differ: list[str] = []

    def push_out(self) -> None:
        """More than there is: all that can leave has left when it is refused."""
        try:
            torch.empty(BUDGET + 1, dtype=torch.uint8, device=self.device)
        except torch.OutOfMemoryError:
            return

    def compare(self, name: str, body: Body, leaves: list[torch.Tensor]) -> None:
        def fresh(leaves: list[torch.Tensor]) -> list[torch.Tensor]:
            return [leaf.detach().clone().to(self.device).requires_grad_(leaf.requires_grad) for leaf in leaves]

        plain = outcome(body, fresh(leaves))
        if len(plain) < 2 or isinstance(plain[0], str):
            self.counts["without a gradient"] += 1
            return
        if outcome(body, fresh(leaves)) != plain:
            self.counts["not the same twice in plain autograd"] += 1
            return
        try:
            with self.session:
                found = outcome(body, fresh(leaves), self.push_out)
        except torch.OutOfMemoryError:
            self.counts["larger than the budget"] += 1
            return
        self.counts["compared"] += 1
        if found != plain:
            self.differ.append(f"{name}: differs at {[a == b for a, b in zip(plain, found)]}, {plain[-1]} {found[-1]}"[:300])

    def end(self, least: int) -> None:
        report = self.session.report()
        print(f"{self.id().split('.')[-1]}: {dict(self.counts)}, {report['stored_bytes'] >> 10} KiB moved", flush=True)
        gc.collect()
        self.assertEqual(self.differ, [])
        self.assertGreater(self.counts["compared"], least)
        self.assertLess(self.counts["larger than the budget"], 0.01 * self.counts["compared"])
        self.check_left(report)

    def check_left(self, report: spillway.Report) -> None:
        self.assertGreater(report["loaded_bytes"], 100_000)

    def test_every_operator(self) -> None:
        for op in op_db:
            if op.name in LEFT_OUT or not op.supports_autograd:
                continue
            for dtype in self.dtypes:
                if dtype not in op.supported_backward_dtypes("cpu"):
                    continue
                torch.manual_seed(1)
                for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=True)):
                    if number == self.samples:
                        break
                    given, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
                    at = [i for i, each in enumerate(given) if isinstance(each, torch.Tensor)]
                    plain_leaves = all(given[i].layout is torch.strided and given[i].is_leaf for i in at)
                    if not plain_leaves:
                        self.counts["not of strided leaves"] += 1
                        continue

                    def body(leaves: list[torch.Tensor], op: Any = op, given: Any = given, spec: Any = spec,
                             at: Any = at) -> Any:
                        values = list(given)
                        for i, leaf in zip(at, leaves):
                            values[i] = leaf
                        first, args, kwargs = torch.utils._pytree.tree_unflatten(values, spec)
                        return op(first, *args, **kwargs)

                    self.compare(f"{op.name} {op.variant_test_name} {dtype} sample {number}", body, [given[i] for i in at])
        self.end(self.least[0])

    def test_every_module(self) -> None:
        for info in module_db:
            torch.manual_seed(1)
            for training in (True, False):
                samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True,
                                                  training=training)
                for number, sample in enumerate(samples):
                    if number == self.samples:
                        break
                    args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
                    module = info.module_cls(*args, **kwargs).train(training).to(self.device)
                    if sample.forward_input is None:
                        continue
                    given, spec = tree_flatten((sample.forward_input.args, sample.forward_input.kwargs))
                    at = [i for i, each in enumerate(given) if isinstance(each, torch.Tensor)]

                    def body(leaves: list[torch.Tensor], module: Any = module, given: Any = given, spec: Any = spec,
                             at: Any = at) -> Any:
                        values = list(given)
                        for i, leaf in zip(at, leaves):
                            values[i] = leaf
                        args, kwargs = torch.utils._pytree.tree_unflatten(values, spec)
                        return copy.deepcopy(module)(*args, **kwargs)

                    self.compare(f"{info.name} training {training} sample {number}", body, [given[i] for i in at])
        self.end(self.least[1])


if __name__ == "__main__":
    unittest.main()
