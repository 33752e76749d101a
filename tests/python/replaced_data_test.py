# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`x.data = y` where code of a Python class runs in the middle of it."""

import contextlib
import faulthandler
import itertools
import unittest
from collections.abc import Callable
from typing import Any

import spillway
import torch

import same_bits

aten = torch.ops.aten


class Wrapper(torch.Tensor):
    """A wrapper subclass whose `detach` assigns `.data` of `Wrapper.other`, if there is one."""

    other: torch.Tensor | None = None
    assigned = 0

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Wrapper":
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        if function is aten.detach.default and Wrapper.other is not None:
            other, Wrapper.other = Wrapper.other, None
            other.data = other.data.clone()
            Wrapper.assigned += 1
        bare = [value.inner if isinstance(value, Wrapper) else value for value in arguments]
        result = function(*bare, **(named or {}))
        return Wrapper(result) if function is aten.detach.default else result


class Save(torch.autograd.Function):
    """Saves a wrapper and a plain tensor beside its input."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, wrapper: Wrapper, plain: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, wrapper, plain)
        return x * plain

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        _, wrapper, plain = ctx.saved_tensors
        return gradient * plain + getattr(wrapper, "inner", wrapper), None, None


class Double(torch.autograd.Function):
    """Its backward gives what it saved other data, and so whoever else saved or holds that tensor."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(weight)
        return x * weight

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        (weight,) = ctx.saved_tensors
        weight.data = weight.data * 2
        del weight
        (again,) = ctx.saved_tensors
        return gradient * again, gradient


class ReplacedData(same_bits.Case):
    def gradient(self) -> torch.Tensor:
        x = same_bits.noise(64, 64).requires_grad_()
        wrapper, plain = Wrapper(same_bits.noise(64, 64)), same_bits.noise(64, 64)
        out = Save.apply(x, wrapper, plain)
        Wrapper.other = plain
        wrapper.data = Wrapper(torch.full((64, 64), 3.0))
        Wrapper.other = None
        del wrapper, plain
        out.sum().backward()
        return x.grad

    def test_data_assigned_while_data_are_assigned(self) -> None:
        """A session does not call the wrapper's `detach`, as plain autograd does not; it once did, under its lock."""
        faulthandler.dump_traceback_later(600, exit=True)  # and then hung
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        plain = self.gradient()
        with spillway.session(torch.nn.Linear(1, 1), device_budget="1GiB", nvme=str(self.folder), min_tensor_bytes=1) as session:
            under = self.gradient()
        session.close()
        self.assertEqual(Wrapper.assigned, 0)
        self.assertEqual(same_bits.bits([under]), same_bits.bits([plain]))

    def assert_as_plain(self, run: Callable[[], list[torch.Tensor]], **options: Any) -> None:
        plain = run()
        session = spillway.session(torch.nn.Linear(1, 1), device_budget="1GiB", nvme=str(self.folder),
                                   **{"min_tensor_bytes": 1, **options})
        with session:
            under = run()
        session.close()
        self.assertEqual(same_bits.bits(under), same_bits.bits(plain))

    def test_a_parameter_gets_what_backward_assigns(self) -> None:
        def run() -> list[torch.Tensor]:
            x = same_bits.noise(64, 64).requires_grad_()
            weight = torch.nn.Parameter(same_bits.noise(64, 64, step=1))
            Double.apply(x.sin(), weight).sum().backward()
            return [x.grad, weight.grad, weight]
        self.assert_as_plain(run)

    def with_another_saver(self, is_held: bool, wants_grad: bool, is_small: bool) -> None:
        """`sin` saved the same tensor, and its backward runs after the Function's."""
        def run() -> list[torch.Tensor]:
            x = same_bits.noise(64, 64).requires_grad_()
            middle = x * 3 if wants_grad else same_bits.noise(64, 64, step=1)
            out = Double.apply(x.mul(middle) + middle.sin(), middle)
            held = [middle] if is_held else []
            del middle
            out.sum().backward()
            return [x.grad, *held]
        self.assert_as_plain(run, min_tensor_bytes=1 << 20 if is_small else 1)

    def test_other_operators_that_saved_it_see_it(self) -> None:
        for case in itertools.product((False, True), repeat=3):
            with self.subTest(case):
                self.with_another_saver(*case)


class OfALeaf(same_bits.Case):
    """A leaf that stays on the device is kept itself; what was handed out of it before follows, too."""

    def gradients(self, around, elements: int) -> list[torch.Tensor]:
        with around:
            x = torch.arange(elements, dtype=torch.float32).requires_grad_()
            w = torch.full((elements,), 2.0).requires_grad_()
            product = x * w
            handed_out = product.grad_fn._saved_self
            x.data = torch.full((elements,), 7.0)
            product.sum().backward()
            return [x.grad, w.grad, handed_out.detach()]

    def test_what_was_handed_out_of_it_follows(self) -> None:
        for elements in (4, 40_000):
            with self.subTest(elements):
                plain = self.gradients(contextlib.nullcontext(), elements)
                session = self.open(torch.nn.Linear(2, 2), "64MiB")
                for found, expected in zip(self.gradients(session, elements), plain, strict=True):
                    self.assertTrue(torch.equal(found, expected))


if __name__ == "__main__":
    unittest.main()
