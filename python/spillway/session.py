# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Training under a budget of device bytes."""

import os
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import torch

from .errors import BudgetError, Error, OptionError, StateError
from .report import Report

_BUDGETS = ("device_budget", "host_budget", "nvme_budget")
_Result = TypeVar("_Result")


def _named(words: str) -> Error:
    """The error for "option: why"; the runtime's names of budgets end in _bytes."""
    option, _, why = words.partition(": ")
    option = option.removesuffix("_bytes")
    if option == "state":
        return StateError(why)
    return (BudgetError if option in _BUDGETS else OptionError)(option, why)


def _call(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Calls the runtime; what it refuses has a type of ours."""
    try:
        return function(*arguments)
    except torch.OutOfMemoryError:
        raise
    except ValueError as refusal:
        raise _named(str(refusal).splitlines()[0]) from None
    except RuntimeError as failure:
        raise Error(str(failure).splitlines()[0]) from failure


def _typed(budget: int | str | None) -> str:
    return "" if budget is None else str(budget)


def _tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()
    if optimizer is not None:
        for state in optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, torch.Tensor))


def _device_of(tensors: Iterable[torch.Tensor]) -> torch.device:
    for tensor in tensors:
        return tensor.device
    return torch.device("cpu")


def _device_bytes(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0


class Session:
    """What autograd saves while this is entered waits off the device where the budget asks for it, and is back
    before backward needs it. Entered and left as often as there are steps, on one thread."""

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        device_budget: int | str,
        host_budget: int | str | None = None,
        nvme: str | os.PathLike[str] | None = None,
        nvme_budget: int | str | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        policy: str = "online",
        timeline: str | os.PathLike[str] | None = None,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        device = _device_of(_tensors(model, optimizer))
        self._device = device
        self._runtime = _call(
            torch.classes.spillway.Session,
            str(device),
            _device_bytes(device),
            _typed(device_budget),
            _typed(host_budget),
            "" if nvme is None else os.fspath(nvme),
            _typed(nvme_budget),
            policy,
            "" if timeline is None else os.fspath(timeline),
        )
        try:
            self._own()
        except Error:
            self.close()  # or it would cap what runs while the error is handled
            raise

    def start(self) -> None:
        """What is saved from now on is the session's."""
        self._own()
        _call(self._runtime.start)

    def stop(self) -> None:
        """What is saved from now on is plain autograd's."""
        _call(self._runtime.stop)

    def step(self) -> None:
        """A step of training has ended."""
        _call(self._runtime.step)

    def close(self) -> None:
        """The cap ends; graphs that were recorded stay right."""
        _call(self._runtime.close)

    def report(self) -> Report:
        return Report(_call(self._runtime.table), _call(self._runtime.json))

    def __enter__(self) -> "Session":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _own(self) -> None:
        tensors = list(_tensors(self._model, self._optimizer))
        moved = next((p for p in self._model.parameters() if p.device != self._device), None)
        if moved is not None:
            raise OptionError("model", f"it was on {self._device} when the session began and has a parameter on "
                                       f"{moved.device} now; open a session after the move")
        _call(self._runtime.own, tensors)
