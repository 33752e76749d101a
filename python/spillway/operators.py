# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Custom operators that a session may run again."""

from typing import TypeVar

import torch

from .errors import OptionError

_Operator = TypeVar("_Operator")


def allow_recompute(operator: _Operator) -> _Operator:
    """Lets sessions run a custom operator again to make a saved tensor anew, instead of moving it.

        @spillway.allow_recompute
        @torch.library.custom_op("mylib::rms_norm", mutates_args=())
        def rms_norm(x: Tensor, weight: Tensor) -> Tensor: ...

    Its results have to be a function of its arguments: it draws no random numbers, keeps nothing between calls, and writes
    no memory that it did not allocate. The first time, its results are compared bit by bit with those that are there; where
    they differ, it is not run again. For the whole process; call it before a session's first step, since a plan that was
    made before does not ask for it.

    Args:
        operator: What `torch.library.custom_op` or `triton_op` returns, `torch.ops.mylib.rms_norm`, or "mylib::rms_norm".

    Returns:
        The operator.

    Raises:
        OptionError: There is no such operator, it is one of PyTorch's, it writes its arguments, communicates,
            takes a generator, or draws random numbers.
    """
    name = _name_of(operator)
    why: str = torch.ops.spillway.allow_recompute(name)
    if why:
        raise OptionError("operator", why)
    _show_calls_of(name)
    return operator


def _show_calls_of(name: str) -> None:
    """To the runtime. Torch 2.15 calls kernels that are written in Python without its dispatcher, which tells what runs."""
    library, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, library), operator)
    for overload in packet.overloads():
        show = getattr(getattr(packet, overload), "_enable_pyobj_dispatch", None)
        if show is not None:
            show(False)


def _name_of(operator: object) -> str:
    if isinstance(operator, torch._ops.OpOverload):
        operator = operator.overloadpacket
    name = getattr(operator, "_qualified_op_name", None) or getattr(operator, "_qualname", operator)
    if not isinstance(name, str):
        raise OptionError("operator", f"expected a custom operator or its name, got {type(operator).__name__}")
    return name
