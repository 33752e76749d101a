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
    """The error for "option: why"; the runtime's names of budgets end in _bytes, and what it cannot read as a
    size is "text of option"."""
    option, _, why = words.partition(": ")
    option = {"codecs": "codec"}.get(option, option.removesuffix("_bytes"))
    if option == "state":
        return StateError(why)
    if option.startswith("text of "):
        return OptionError(option.removeprefix("text of "), why)
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


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """This process's part of a sharded tensor, which has the storage."""
    return getattr(tensor, "_local_tensor", tensor)


def _owned(
    model: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer]
) -> Iterator[tuple[str, torch.Tensor]]:
    """What is never moved, by name."""
    for name, parameter in model.named_parameters():
        yield name, _local(parameter)
        if parameter.grad is not None:
            yield f"{name}.grad", _local(parameter.grad)
    yield from model.named_buffers()
    for optimizer in optimizers:
        for state in optimizer.state.values():
            for name, value in state.items():
                yield from ((f"optimizer state {name}", _local(tensor)) for tensor in _tensors(value))


def _state_count(optimizers: Iterable[torch.optim.Optimizer]) -> int:
    """How many values their states have; those of one that was loaded anew are as large."""
    return sum(len(value) if isinstance(value, list) else 1
               for optimizer in optimizers for state in optimizer.state.values() for value in state.values())


def _tensors(value: object) -> Iterator[torch.Tensor]:
    """In lists, too: L-BFGS keeps its history in them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _address(tensor: torch.Tensor | None) -> int:
    """Where it is; of one that is in no one place, which it is."""
    if tensor is None:
        return 0
    local = _local(tensor)
    return local.data_ptr() if local.layout is torch.strided else id(local)


def _check_types(model: object, optimizers: list[Any], lossy: object, names: dict[str, object]) -> None:
    if not isinstance(model, torch.nn.Module):
        raise OptionError("model", f"a torch.nn.Module is wanted, not {type(model).__name__}")
    for optimizer in optimizers:
        if not hasattr(optimizer, "state"):
            raise OptionError("optimizer", f"a torch.optim.Optimizer is wanted, or several, not {type(optimizer).__name__}")
    for option, name in names.items():
        if not isinstance(name, str):
            raise OptionError(option, f"a name is wanted, not {name!r}")
    if not isinstance(lossy, bool):
        raise OptionError("lossy", f"True or False is wanted, not {lossy!r}")


def _device_of(model: torch.nn.Module) -> torch.device:
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def _device_bytes(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0


def _rank() -> int:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else 0


class Session:
    """What autograd saves while this is entered waits off the device where the budget asks for it, and is back
    before backward needs it. Entered and left as often as there are steps, each time on one thread.

    model: never moved, with its gradients; its first parameter says which device the session is of.
    device_budget: bytes of that device that training may take: a number, "16GiB" or "80%".
    host_budget: of host memory that saved tensors may wait in; None: 0 on the CPU, half of what is free on a GPU.
    nvme, nvme_budget: a folder on a disk that they may wait in, and how much of it; None: nine tenths of what is free.
    optimizer: one or several, whose state counts in the budget.
    policy: "online" (what leaves is chosen as it runs), "keep_all" (nothing leaves) or, with lossy,
        "qpo" (what layers read leaves at once, in 4 or 8 bits).
    lossy: without it nothing ever loses a bit, and what would is refused.
    codec: in place of the policy's own: "affine4" for what may lose something unnamed (inputs of linear layers,
        convolutions, norms and activations), "attention=affine8" for one class, "all=lossless"; several with commas.
    nonfinite: tensors with NaN or infinity that a codec cannot give back: "keep" (they leave as they are) or "refuse".

    Raises OptionError or BudgetError for what cannot be."""

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        device_budget: int | str,
        host_budget: int | str | None = None,
        nvme: str | os.PathLike[str] | None = None,
        nvme_budget: int | str | None = None,
        optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
        policy: str = "online",
        lossy: bool = False,
        codec: str | None = None,
        nonfinite: str = "keep",
    ) -> None:
        self._model = model
        several = optimizer if isinstance(optimizer, Iterable) else [optimizer]
        self._optimizers = [each for each in several if each is not None]
        self._told: tuple[int, int, int] | None = None
        self._is_entered = False
        self._is_closed = False
        codecs = "" if codec is None else codec
        _check_types(model, self._optimizers, lossy, {"policy": policy, "codec": codecs, "nonfinite": nonfinite})
        device = _device_of(model)
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
            lossy,
            codecs,
            nonfinite,
            _rank(),
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
        self._is_entered = True

    def stop(self) -> None:
        """What is saved from now on is plain autograd's."""
        _call(self._runtime.stop)
        self._is_entered = False

    def step(self) -> None:
        """A step of training has ended. In a session that is entered the next one begins at once."""
        if self._is_entered:
            self._own()
        _call(self._runtime.step)

    def close(self) -> None:
        """The cap ends; graphs that were recorded stay right. Once more, it does nothing."""
        if not self._is_closed:
            _call(self._runtime.close)
            self._is_closed = True

    def report(self) -> Report:
        return Report(_call(self._runtime.table), _call(self._runtime.json))

    def explain(self, module: str = "") -> str:
        """Every tensor that the last forward saved in `module`, by its path in the model: its bytes, and why it
        stayed on the device or where it went. Without a path, all of them."""
        try:
            self._model.get_submodule(module)
        except AttributeError:
            raise OptionError("module", f"the model has no '{module}'") from None
        return _call(self._runtime.explain, module)

    def timeline(self, file: str | os.PathLike[str]) -> None:
        """Writes the last steps as JSON that Perfetto and chrome://tracing open: stalls, copies, NVMe, phases."""
        _call(self._runtime.write_trace, os.fspath(file))

    def __enter__(self) -> "Session":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _own(self) -> None:
        """Tells what is never moved, where that is not what was told last."""
        parameters = list(self._model.parameters())
        now = (sum(_address(parameter) for parameter in parameters),
               sum(_address(parameter.grad) for parameter in parameters),
               _state_count(self._optimizers))
        if now == self._told:
            return
        owned = list(_owned(self._model, self._optimizers))
        moved = next((p for p in parameters if p.device != self._device), None)
        if moved is not None and self._told is None:
            raise OptionError("model", f"it has parameters on {self._device} and on {moved.device}; a session is of one")
        if moved is not None:
            raise OptionError("model", f"it was on {self._device} when the session began and has a parameter on "
                                       f"{moved.device} now; open a session after the move")
        _call(self._runtime.own, [tensor for _, tensor in owned], [name for name, _ in owned])
        self._told = now
