# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The systems that the semantics suite compares, each as a small adapter: how a forward runs under it."""

import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import sys
import threading
import time
import types
import unittest.mock
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.utils.checkpoint
from case import SHAPE, NotApplicable, System
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

LATE_LIBRARY = pathlib.Path(os.environ.get("SPILLWAY_BINARY_DIR", "build")) / "tests" / "liblate.so"

_WRAPS = "it wraps a function; there is no context to enter"


class IdentityHook(System):
    name = "hook"
    title = "identity hook"
    about = "`saved_tensors_hooks(lambda t: t, lambda t: t)`: what any Python hook costs in semantics"

    def region(self) -> AbstractContextManager[Any]:
        return saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


class SaveOnCpu(System):
    name = "save_on_cpu"
    title = "save_on_cpu"
    about = "`torch.autograd.graph.save_on_cpu(pin_memory=True)`: copies every saved tensor, on a CPU, too"

    def region(self) -> AbstractContextManager[Any]:
        return save_on_cpu(pin_memory=True)


class Wrapping(System):
    """A system that is given a function."""

    def region(self) -> AbstractContextManager[Any]:
        raise NotApplicable(_WRAPS)


class Checkpoint(Wrapping):
    name = "checkpoint"
    title = "checkpoint"
    about = "`torch.utils.checkpoint.checkpoint(f, *x, use_reentrant=False)`: recomputes what `f` saves"

    def call(self, function: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False, **named)


class Transformers(Wrapping):
    """The case's function is the forward of a layer of a model whose checkpointing is switched on."""
    name = "transformers"
    title = "transformers offload"
    about = ("`activation_checkpointing_enable(offload=True)` of a model with one "
             "`GradientCheckpointingLayer`, whose forward is the case's function")

    def __init__(self, device: str, folder: str) -> None:
        super().__init__(device, folder)
        from transformers import PreTrainedConfig, PreTrainedModel
        from transformers.modeling_layers import GradientCheckpointingLayer

        class Layer(GradientCheckpointingLayer):
            def forward(self, function: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
                return function(*inputs, **named)

        class Model(PreTrainedModel):
            supports_gradient_checkpointing = True
            main_input_name = "inputs"

            def __init__(self) -> None:
                super().__init__(PreTrainedConfig())
                self.layer = Layer()
                self.post_init()

        model = Model().train()
        model.activation_checkpointing_enable(offload=True)
        self._layer = model.layer

    def version(self) -> str:
        return importlib.metadata.version("transformers")

    def call(self, function: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
        return self._layer(function, *inputs, **named)


class _TorchRng:
    """The state that torch_remat leaves to its user, as its documentation shows it."""

    def snapshot(self) -> torch.Tensor:
        return torch.get_rng_state()

    def restore(self, state: torch.Tensor) -> None:
        torch.set_rng_state(state)


class TorchRemat(Wrapping):
    name = "torch_remat"
    title = "torch_remat"
    about = ("`torch_remat.checkpoint(recompute_state_hooks=...)(f)(*x)` with its documented hook for "
             "random state; the function is one recomputed region, because a save region needs an edit of the function")

    def __init__(self, device: str, folder: str) -> None:
        super().__init__(device, folder)
        self._remat = importlib.import_module("torch_remat")

    def version(self) -> str:
        return importlib.metadata.version("torch_remat")

    def call(self, function: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
        hooks = () if torch.compiler.is_compiling() else (_TorchRng(),)  # it has them for eager regions only
        wrap = self._remat.checkpoint(region_name="case", recompute_state_hooks=hooks)
        return wrap(function)(*inputs, **named)


class _Stream:
    """The methods that torch.cpu.Stream lacks: a CPU's work has ended when a call returns."""

    def _nothing(self, *_: Any) -> None:
        return None

    wait_stream = wait_event = record_event = synchronize = _nothing


class _CpuStreams:
    """What stands for the accelerator's module."""
    Stream = current_stream = _Stream
    stream = contextlib.nullcontext


class Trl(System):
    """The one module of TRL's, on a stub of an accelerator: current accelerator and streams of the CPU."""
    name = "trl"
    title = "TRL"
    about = ("`OffloadActivations(use_pin_memory=False)`, its defaults otherwise: a side stream. "
             "On a stub: the CPU is the accelerator, its streams and `record_stream` do nothing")
    streams = True

    def __init__(self, device: str, folder: str) -> None:
        super().__init__(device, folder)
        found = importlib.util.find_spec("trl")
        if found is None or found.origin is None:
            raise ModuleNotFoundError("trl")
        path = pathlib.Path(found.origin).parent / "models" / "activation_offloading.py"
        spec = importlib.util.spec_from_file_location("trl_activation_offloading", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self._kind = module.OffloadActivations
        torch.Tensor.record_stream = lambda *_: None  # it takes streams of torch's own only
        self._manager = self._make()

    def _make(self) -> Any:
        """A manager that takes the CPU for the accelerator; the stub reaches nothing else."""
        cpu = torch.device("cpu")
        with unittest.mock.patch("torch.accelerator.current_accelerator", lambda *_, **__: cpu):
            manager = self._kind(use_pin_memory=False, use_streams=self.streams)
        manager.device_module, manager.s1 = _CpuStreams, _Stream()
        return manager

    def version(self) -> str:
        return importlib.metadata.version("trl")

    def own(self, module: torch.nn.Module) -> None:
        self._manager.update_model_params(module)

    def region(self) -> AbstractContextManager[Any]:
        return self._manager

    def another(self) -> AbstractContextManager[Any]:
        return self._make()

    def drop(self) -> None:
        self._manager = self._make()

    def end(self, passed: bool) -> None:
        self._manager = self._make()


class TrlOneStream(Trl):
    name = "trl_one_stream"
    title = "TRL, one stream"
    about = "the same with `use_streams=False`"
    streams = False


class Spillway(System):
    """One session for all cases, as a script has one for all steps. After each forward an allocation of almost
    the whole budget sends away whatever can leave."""
    name = "spillway"
    title = "Spillway"
    about = ("`spillway.session(model, device_budget=\"16MiB\", nvme=...)`; after each forward all that can leave "
             "has left")
    budget = 16 << 20
    options: dict[str, Any] = {}

    def __init__(self, device: str, folder: str) -> None:
        super().__init__(device, folder)
        self._spillway = importlib.import_module("spillway")
        self._open()

    def _open(self) -> None:
        self._model = self._new_model()
        self._model.place = torch.nn.Parameter(torch.zeros(1, device=self.device))
        self._session = self._new(self._model)
        self._earlier = 0
        self._fresh = False  # another session was opened: the next case has a new one

    def _new_model(self) -> torch.nn.ModuleList:
        return torch.nn.ModuleList()

    def _new(self, model: torch.nn.Module) -> Any:
        return self._spillway.session(model, device_budget=self.budget, nvme=self.folder, **self.options)

    def region(self) -> AbstractContextManager[Any]:
        return self._settled(self._session)

    @contextlib.contextmanager
    def _settled(self, session: Any) -> Iterator[Any]:
        with session:
            yield session
        self.settle()

    @contextlib.contextmanager
    def another(self) -> Iterator[Any]:
        self._fresh = True
        session = self._new(self._model)
        try:
            with self._settled(session):
                yield session
        finally:
            self._earlier += session.report()["freed_bytes"]
            session.close()

    def call_inside(self, function: Callable[..., Any], *inputs: Any) -> Any:
        with self.another():
            return function(*inputs)

    def own(self, module: torch.nn.Module) -> None:
        self._model.append(module)
        with self._session:  # which counts it from here on
            pass

    def settle(self) -> None:
        for room in range(self.budget - (1 << 16), 0, -(1 << 17)):
            with contextlib.suppress(torch.OutOfMemoryError):
                torch.empty(room, dtype=torch.uint8, device=self.device)
                return

    def moved_bytes(self) -> int:
        return self._earlier + self._session.report()["freed_bytes"]

    def used_bytes(self) -> int:
        return self._session.report()["device_bytes"]

    def drop(self) -> None:
        self._earlier = self.moved_bytes()
        self._session.close()
        self._session = self._new(self._model)

    def end(self, passed: bool) -> None:
        del self._model[:]
        if self._fresh or not passed:
            self.drop()
        self._fresh = False


class _ModelOfAll(torch.nn.ModuleList):
    """Has a case's leaves as its buffers, as long as the case has them."""

    def __init__(self) -> None:
        super().__init__()
        self._given: list[weakref.ref[torch.Tensor]] = []

    def give(self, tensor: torch.Tensor) -> None:
        self._given.append(weakref.ref(tensor))

    def forget(self) -> None:
        self._given.clear()

    def named_buffers(self, *how: Any, **named: Any) -> Iterator[tuple[str, torch.Tensor]]:
        yield from super().named_buffers(*how, **named)
        living = ((number, ref()) for number, ref in enumerate(self._given))
        yield from ((f"given.{number}", tensor) for number, tensor in living if tensor is not None)


class SpillwayMadeAgain(Spillway):
    """With no place to move to: what leaves is dropped, and made again by its operators. `delta` makes whole blocks
    again and needs no plan, so it does in the first step, too. What is large and was there before is made use of only where
    it is the model's, so a case's leaves are. A tensor of the script fills a good part of the budget, since far below it
    no recipe is made."""
    name = "spillway_made_again"
    title = "Spillway, made again"
    about = ("the same with `policy=\"delta\"`, without a place to move to, and with the case's leaves as buffers of the "
             "model: what its operators can make again has been dropped; a case of which nothing is dropped does not "
             "apply; `delta` chooses by measured times, so for a few that varies")
    budget = 48 << 20
    filled = 16 << 20
    skips_idle = True
    drops_by_measured_times = True

    def _new_model(self) -> torch.nn.ModuleList:
        return _ModelOfAll()

    def _new(self, model: torch.nn.Module) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._spillway.SpillwayWarning)  # of no place to move to
            session = self._spillway.session(model, device_budget=self.budget, policy="delta")
        with session:
            self._fills = torch.empty(self.filled, dtype=torch.uint8, device=self.device)
            torch.zeros(SHAPE, requires_grad=True, device=self.device).sin()  # a save sees that the budget is near
        return session

    def own(self, module: torch.nn.Module) -> None:
        self._model.append(module)  # counted from the next entry on: far below the budget an entry is one too many

    def given(self, tensor: torch.Tensor) -> None:
        self._model.give(tensor)

    def used_bytes(self) -> int:
        with self._session:  # which sees what the model has no more
            pass
        return super().used_bytes()

    def end(self, passed: bool) -> None:
        self._model.forget()
        super().end(passed)


class SpillwayLate(Spillway):
    """The same on a device whose streams run late, in an order that the case's number draws."""
    name = "spillway_late"
    title = "Spillway, late"
    about = "the same on an accelerator in software, whose copies and kernels run as late as they may"
    options = {"host_budget": "64MiB"}
    cases = 0

    def another(self) -> AbstractContextManager[Any]:
        if threading.current_thread() is not threading.main_thread():
            raise NotApplicable("a device's budget is one for all threads: one that sends all away fills it for others")
        return super().another()

    def end(self, passed: bool) -> None:
        super().end(passed)
        faults = torch.ops.late.faults()
        if faults:
            raise RuntimeError(f"{len(faults)} times streams are not in order, first: {faults[0]}")
        self.cases += 1
        self._reset_when_idle(time.monotonic() + 10)

    def _reset_when_idle(self, until: float) -> None:
        """A thread that ran a backward may still be freeing what it had."""
        while True:
            try:
                torch.ops.late.reset(self.cases)
                return
            except RuntimeError:
                if time.monotonic() > until:
                    raise


ALL: dict[str, type[System]] = {each.name: each for each in (
    System, IdentityHook, SaveOnCpu, Checkpoint, Transformers, TorchRemat, TrlOneStream, Trl, Spillway,
    SpillwayMadeAgain, SpillwayLate)}


def device_name(kind: type[System]) -> str:
    return "late" if kind is SpillwayLate else "cpu"


def device_of(kind: type[System]) -> str:
    """The device of a system's cases; loads the library of one that is not torch's own."""
    if kind is not SpillwayLate:
        return "cpu"
    library = LATE_LIBRARY
    if not library.exists():
        raise ModuleNotFoundError(f"{library} is not built")
    if not hasattr(torch, "late"):
        torch.ops.load_library(library)
        torch.utils.rename_privateuse1_backend("late")
        torch._register_device_module("late", _late_module())
    return "late"


def _late_module() -> types.ModuleType:
    """What Python's side of torch asks a device for."""
    module = types.ModuleType("late")
    module.device_count = lambda: 2
    module.current_device = lambda: 0
    module.is_available = module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = module.manual_seed = torch.ops.late.manual_seed
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    return module


def warm() -> None:
    """What every process would import for itself; no backward runs, so that forks may."""
    importlib.import_module("torch._dynamo")
    importlib.import_module("torch.nested")
    torch.compile(lambda x: x.sin(), backend="aot_eager")(torch.zeros(2))
    for name in ("transformers.modeling_layers", "accelerate.logging", "torch_remat"):
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)
    sys.stdout.flush()
