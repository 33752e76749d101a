# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a case of the semantics suite is, what it may use."""

import gc
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

SHAPE = (256, 128)  # 128 KiB of float32: above every system's size floor
WRITTEN = "modified by an inplace operation"

PASS, LOUD, WRONG, OLD, MEMORY, IDLE, CRASH, HANG, NONE = (
    "pass", "loud", "wrong", "old value", "memory", "idle", "crash", "hang", "n/a")
SILENT = (WRONG, OLD, MEMORY)


class NotApplicable(Exception):
    """The system cannot pose the case; the words say why."""


class Held(Exception):
    """Memory or a graph is held where plain autograd lets it go."""


@dataclass(frozen=True)
class Outcome:
    kind: str
    why: str = ""


@dataclass(frozen=True)
class Case:
    """`raises`: what plain autograd's error says. `moves`: something large is saved, so that a system that
    moves has something to move. `wrong`: what it means when the result differs."""
    name: str
    title: str
    group: str
    source: str
    run: Callable[["Subject"], Any]
    raises: str = ""
    moves: bool = True
    wrong: str = "the result differs"

    @property
    def plain(self) -> str:
        return "raises" if self.raises else "frees" if self.wrong == MEMORY else "bits"


CASES: list[Case] = []


def case(source: str, **options: Any) -> Callable[[Callable[["Subject"], Any]], Callable[["Subject"], Any]]:
    """Files a function as a case: its name, the first line of its text, its module as the group."""
    def file(run: Callable[["Subject"], Any]) -> Callable[["Subject"], Any]:
        title = (run.__doc__ or "").splitlines()[0].rstrip(".")
        group = run.__module__.removeprefix("cases_").replace("_", " ")
        CASES.append(Case(run.__name__, title, group, source, run, **options))
        return run
    return file


class System:
    """How a forward is run so that a system has what autograd saves. This one is plain autograd."""
    name = "plain"
    title = "plain autograd"
    about = "the reference"
    skips_idle = False  # a case in which nothing leaves does not apply
    drops_by_measured_times = False  # so whether a case applies varies

    def __init__(self, device: str, folder: str) -> None:
        self.device = torch.device(device)
        self.folder = folder

    def version(self) -> str:
        return torch.__version__

    def region(self) -> AbstractContextManager[Any]:
        """What is saved within is the system's. One object, entered anew each time."""
        return torch.enable_grad()

    def another(self) -> AbstractContextManager[Any]:
        """A region of a second object of the system's."""
        return self.region()

    def call(self, function: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
        with self.region():
            return function(*inputs, **named)

    def call_inside(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """As `call`, from a function that runs under the system already."""
        return self.call(function, *inputs)

    def own(self, module: torch.nn.Module) -> None:
        """The model that is trained, for systems that ask for it."""

    def given(self, tensor: torch.Tensor) -> None:
        """A leaf of the case, for systems that make things again from what a model has."""

    def settle(self) -> None:
        """Whatever the system may send away is away now."""

    def moved_bytes(self) -> int | None:
        """Bytes that really left so far; None for systems whose moves do not matter."""
        return None

    def used_bytes(self) -> int:
        """Bytes on the device, by the system's own count; 0 where it has none."""
        return 0

    def drop(self) -> None:
        """The user lets the system's objects go, graphs live on."""

    def end(self, passed: bool) -> None:
        """A case has ended; what it did to the system's objects must not reach the next."""


class Subject:
    """What a case works with: a system, a device, tensors that are the same in each run."""

    def __init__(self, system: System, write: bool = True) -> None:
        self.system = system
        self.device = system.device
        self.writes = write
        self._made = 0
        torch.manual_seed(0)

    def tensor(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        seed = torch.Generator().manual_seed(self._made)
        self._made += 1
        return torch.randn(shape or SHAPE, generator=seed, dtype=_drawn(dtype)).to(dtype).to(self.device)

    def leaf(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        made = self.tensor(*shape, dtype=dtype).requires_grad_()
        self.system.given(made)
        return made

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        """On the device, with the same parameters in each run, and known to the system."""
        module.to(self.device)
        for parameter in module.parameters():
            parameter.data = self.tensor(*parameter.shape, dtype=parameter.dtype) / 8
        self.system.own(module)
        return module

    def run(self, function: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
        result = self.system.call(function, *inputs, **named)
        self.system.settle()
        return result

    def region(self) -> AbstractContextManager[Any]:
        return self.system.region()

    def another(self) -> AbstractContextManager[Any]:
        return self.system.another()

    def settle(self) -> None:
        self.system.settle()

    def write(self, write: Callable[[], Any]) -> None:
        """The write that plain autograd finds; left out when the gradient without it is asked for."""
        if self.writes:
            write()

    def held_bytes(self) -> tuple[int, int]:
        """Of all tensors that Python knows; and what the system counts, those among it."""
        gc.collect()
        storages: dict[int, int] = {}
        for item in gc.get_objects():
            if type(item) in (torch.Tensor, torch.nn.Parameter) and item.layout == torch.strided:
                storages[item.untyped_storage()._cdata] = item.untyped_storage().nbytes()
        return sum(storages.values()), self.system.used_bytes()


class Watch:
    """Sees whether graphs and storages are let go."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._graphs: list[weakref.ref[Any]] = []
        self._storages: list[StorageWeakRef] = []
        self._before = subject.held_bytes()

    def graph(self, output: torch.Tensor) -> torch.Tensor:
        """Passes `output` on by a node that is seen to go."""
        token = _Token()
        self._graphs.append(weakref.ref(token))
        return _Watched.apply(output, token)

    def storage(self, tensor: torch.Tensor) -> torch.Tensor:
        self._storages.append(StorageWeakRef(tensor.untyped_storage()))
        return tensor

    def expect_released(self, spare_bytes: int = 1 << 16) -> None:
        patience = 0.0 if self._subject.device.type == "cpu" else 5.0  # a device's thread lets go after the call
        end = time.monotonic() + patience
        while True:
            try:
                return self._expect_released_now(spare_bytes)
            except Held:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.01)

    def _expect_released_now(self, spare_bytes: int) -> None:
        gc.collect()
        if any(ref() is not None for ref in self._graphs):
            raise Held("the graph lives on")
        if any(not ref.expired() for ref in self._storages):
            raise Held("a saved tensor's storage lives on")
        more = max(now - before for now, before in zip(self._subject.held_bytes(), self._before, strict=True))
        if more > spare_bytes:
            raise Held(f"{more >> 10} KiB are held after the graph is gone")


class _Token:
    pass


class _Watched(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, token: _Token) -> torch.Tensor:
        ctx.token = token
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, None


def _drawn(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex or dtype == torch.float64:
        return dtype
    return torch.float32


def all_cases() -> Iterator[Case]:
    names = set()
    for each in CASES:
        if each.name in names:
            raise ValueError(f"two cases are named {each.name}")
        names.add(each.name)
        yield each
