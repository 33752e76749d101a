# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Modes that change what operators return, as emulations of other arithmetic do, see the program's operators alone; and
wrapper subclasses are saved without any."""

import unittest
from typing import Any

import same_bits
import torch
from as_plain import AsPlain
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class Scales(TorchDispatchMode):
    """Each result is a little larger."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.append(str(operator))
        return tree_map(lambda each: each * 1.01 if isinstance(each, torch.Tensor) and each.is_floating_point() else each,
                        operator(*args, **(kwargs or {})))


class WithoutDetach(torch.Tensor):
    """A wrapper that supports few operators."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "WithoutDetach":
        wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        wrapper.inner = inner
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator is not torch.ops.aten.mul.Tensor:
            raise NotImplementedError(operator)
        return operator(*(each.inner if isinstance(each, cls) else each for each in args), **(kwargs or {}))


class Modes(AsPlain):
    def test_what_is_saved_is_not_what_a_mode_makes_of_a_copy(self) -> None:
        def body(x: torch.Tensor, push: Any) -> Any:
            with Scales() as mode:
                y = x.cos()
                loss = (y * y).exp().sum()
                del y
            push()
            loss.backward()
            return same_bits.bits([x.grad]), mode.operators
        self.as_plain(body)

    def test_a_swap_of_data_under_a_mode(self) -> None:
        def body(x: torch.Tensor, push: Any) -> Any:
            y = x * 1.0
            loss = y.exp().sum() + y.cos().sum()
            with Scales():
                y.data = x.detach() * 0.5
            del y
            push()
            loss.backward()
            return same_bits.bits([x.grad])
        self.as_plain(body)

    def test_a_wrapper_that_cannot_be_detached_is_saved(self) -> None:
        def body(x: torch.Tensor, push: Any) -> Any:
            loss = (x * WithoutDetach(same_bits.noise(*x.shape))).sin().sum()
            push()
            loss.backward()
            return same_bits.bits([x.grad])
        self.as_plain(body)


if __name__ == "__main__":
    unittest.main()
