# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions: training under a budget of device bytes."""

import contextlib
import inspect
import json
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch.nn.parameter import UninitializedTensorMixin

from . import _options, _update
from ._owned import fingerprint, optimizers_with_state, owned_tensors, state_tensors, what_is_not_counted
from ._states import States
from .errors import BudgetError, Error, OptionError, StateError, SpillwayWarning
from .policies import policies
from .report import Report

_Result = TypeVar("_Result")


def _error_of(words: str) -> Error:
    """Of the runtime's own line, which is JSON; the words of a ValueError of torch's are kept."""
    try:
        refusal = json.loads(words)
    except ValueError:
        refusal = None
    if not isinstance(refusal, dict):
        return Error(words)
    if refusal["code"] == "state":
        return StateError(refusal["why"])
    numbers = (refusal["number"], refusal["bound"]) if refusal["number"] or refusal["bound"] else (None, None)
    return (BudgetError if refusal["is_budget"] else OptionError)(
        refusal["option"], refusal["why"], refusal["code"], *numbers)


def _call(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Calls the runtime; its refusals are raised as types of ours."""
    try:
        return function(*arguments)
    except torch.OutOfMemoryError:
        raise
    except ValueError as refusal:
        raise _error_of(str(refusal).splitlines()[0]) from None
    except RuntimeError as failure:
        raise Error(str(failure).splitlines()[0]) from failure


def _check_types(model: object, optimizers: list[Any]) -> None:
    if not isinstance(model, torch.nn.Module):
        raise OptionError("model", f"expected a torch.nn.Module, got {type(model).__name__}")
    for optimizer in optimizers:
        if not hasattr(optimizer, "state"):
            raise OptionError("optimizer", f"expected one or several torch.optim.Optimizer, got {type(optimizer).__name__}")


def _device_of(model: torch.nn.Module) -> torch.device:
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def _device_bytes(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0


def _rank() -> int:
    """From torch.distributed; before it is initialized, from the launcher (torchrun, Slurm, Open MPI, MPICH)."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
                 "LOCAL_RANK"):
        if (rank := os.environ.get(name, "")).isdecimal():
            return int(rank)
    return 0


def _levels_to_the_caller() -> int:
    """To the code that called this package. Python shows a warning once per line, so each session of the caller is
    warned of at its own line."""
    package, level, frame = os.path.dirname(__file__), 1, sys._getframe(1)
    while frame.f_back is not None and (os.path.dirname(frame.f_code.co_filename) == package
                                        or frame.f_code.co_filename == contextlib.__file__):
        frame, level = frame.f_back, level + 1
    return level


class Session:
    """Trains a model under a budget of device bytes.

    Tensors that autograd saves while the session is entered may leave the device; they return before backward needs
    them. Enter the session once per step, with `with session:`. Only one thread may use a session at a time.

    Args:
        model: The model to train. Its parameters, buffers and gradients stay on the device; the first parameter
            determines the session's device.
        optimizer: One or several optimizers that are not from torch.optim, so that their state counts in the budget.
            Those from torch.optim count without it, wherever they step.
        device_budget: hard cap on the bytes of the device that training may use; a share is of the GPU's memory, or on
            the CPU of this machine's memory or its cgroup's limit [required].
        host_budget: host memory where saved tensors may wait [0 on the CPU, half of the free host memory on a GPU].
        nvme: existing folder, on a disk, where saved tensors may wait [none].
        nvme_budget: most bytes to use in nvme; a share is of its free space [nine tenths of the free space].
        nvme_allow_tmpfs: allow nvme to be on a file system in memory (tmpfs) [False].
        nvme_rate: limit nvme to this many bytes a second each way, to imitate a slower drive or link [as fast as it is].
        policy: decides which saved tensors leave the device, and when: "online" (chooses at run time); "keep_all"
            (moves nothing); with lossy: "qpo" (layer inputs, in 4 or 8 bits); others: docs/systems.md ["online"].
        plan: file of a plan (docs/formats/plan.md) that steps run by from the first one on; saved tensors that it does not
            name are left to the policy online [none].
        recompute: whether saved tensors may be dropped and made again by the operators that made them, bit for bit;
            "auto": where the policy plans so or there is no place to move to; "on": always; "off": never ["auto"].
        states: which of what a model trains with may leave the device beside saved tensors; "stay": nothing; "optimizer": the
            optimizer's state, between two of its steps ["stay"].
        min_tensor_bytes: saved tensors smaller than this stay on the device [64 KiB].
        lossy: allow codecs that lose precision; without it they are refused [False].
        codec: codecs in place of the policy's, separated by commas: "affine4", "attention=affine8:group=64" for one
            class, "all=lossless" for every class; see docs/lossy.md [the policy's own].
            Or a mapping: {"attention": "affine8:group=64"}.
        nonfinite: what to do with tensors that hold NaN or infinity when a codec cannot restore these: "keep" (store
            them as they are) or "refuse" (stop the step that needs one) ["keep"].
        rounding_seed: seed of stochastic rounding; runs with the same seed round identically [from torch's CPU seed, the rank,
            and the number of sessions opened before].
        record_events: file to write the session's events and commands to [none].
        flight_record: file to write the last steps' events and commands to when a step fails [none].
        timeline: file to write a timeline to when the session closes (stalls, copies, NVMe, bytes), for Perfetto or
            chrome://tracing [none].

    Raises:
        OptionError: An option is invalid.
        BudgetError: A budget cannot be met.
    """

    _is_closed = True  # until it is open
    _states: States | None = None  # none: nothing but saved tensors moves
    _is_dying = False

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        device_budget: int | str,
        host_budget: int | str | None = None,
        nvme: str | os.PathLike[str] | None = None,
        nvme_budget: int | str | None = None,
        nvme_allow_tmpfs: bool = False,
        nvme_rate: int | str | None = None,
        policy: str = "online",
        plan: str | os.PathLike[str] | None = None,
        recompute: str = "auto",
        states: str = "stay",
        min_tensor_bytes: int | str | None = None,
        lossy: bool = False,
        codec: str | Mapping[str, str] | None = None,
        nonfinite: str = "keep",
        rounding_seed: int | None = None,
        record_events: str | os.PathLike[str] | None = None,
        flight_record: str | os.PathLike[str] | None = None,
        timeline: str | os.PathLike[str] | None = None,
        optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    ) -> None:
        arguments = dict(locals())  # before any other name is bound
        self._model = model
        opener = sys._getframe(_levels_to_the_caller() - 1)
        self._opened_at = (opener.f_code.co_filename, opener.f_lineno)
        several = optimizer if isinstance(optimizer, Iterable) else [optimizer]
        self._optimizers = [each for each in several if each is not None]
        self._last_owned: tuple[int, ...] | None = None
        self._is_entered = False
        self._entries = 0
        self._has_warned: set[str] = set()
        self._was_refused = False  # the budget does not hold what is there now
        # What took part, and its state when it was counted after a step.
        self._seen: "weakref.WeakKeyDictionary[torch.optim.Optimizer, int | None]" = weakref.WeakKeyDictionary()
        self._versions: int | None = None
        self._has_stepped = False  # an optimizer of torch's, since the last entry
        self._is_stepping = False  # one is in the middle of it, as L-BFGS when it calls its closure
        self._unseen_updates = 0  # entries in a row before which parameters were written, and no optimizer had stepped
        self._last: Report | None = None
        self._last_refusal: dict[str, Any] | None = None  # of a closed session
        self._last_use = _update.next_use()
        _check_types(model, self._optimizers)
        options = _options.read(arguments)
        device = _device_of(model)
        self._device = device
        self._runtime = _call(
            torch.classes.spillway.Session, _options.to_json(options, device, _rank()), _device_bytes(device),
            _options.utf8(f"{opener.f_code.co_filename}:{opener.f_lineno}"),
        )
        self._is_closed = False
        self._states = States(self._runtime, self._report_now()["device_limit_bytes"]) if states == "optimizer" else None
        self._version_at_opening = self._version()
        try:
            if self._states is not None and not _call(self._runtime.has_tiers):
                raise OptionError("states", "the optimizer's state has no place to wait; give a folder on a disk (nvme='/scratch') "
                                            "or a host_budget")
            self._see_optimizers()
            self._own()
            if not _call(self._runtime.has_tiers) and self._needs_place(policy, recompute):
                self._warn_of_no_place(makes_again=recompute != "off")
        except BaseException:  # a warning, too, where warnings are errors
            _call(self._runtime.close)  # or it would cap what runs while the error is handled
            self._is_closed = True
            raise
        _update.watch(self)

    def __new__(cls, *unnamed: Any, **options: Any) -> "Session":
        if cls.__init__ is Session.__init__:  # else a subclass may have options of its own
            _options.refuse_unnamed("session()", unnamed)
            _options.refuse_unknown("session()", options, cls.__signature__.parameters)
        return super().__new__(cls)

    # `__new__` would hide it.
    __signature__ = inspect.Signature(list(inspect.signature(__init__).parameters.values())[1:])

    def _see_optimizers(self) -> None:
        """Of torch.optim, with state that exists already, as of a checkpoint: it counts before they take a step."""
        for optimizer in optimizers_with_state(self._model):
            self._seen.setdefault(optimizer)

    def start(self) -> None:
        """Enters the session: it may move what autograd saves from now on. `with session:` calls this."""
        self._warn_of_unseen_updates()
        if self._entries == 0:
            self._see_optimizers()  # a checkpoint may have been loaded since
        self._own()
        parameters = list(filter(_update.is_plain, self._model.parameters()))
        try:
            _call(self._runtime.start, parameters)
            self._is_entered = True
            self._last_use = _update.next_use()
            self._entries += 1
            if self._states is not None:
                self._states.let_leave(list(self._seen))
        except BaseException as error:
            if not isinstance(error, Error):  # Ctrl-C or a signal's, maybe after it was entered: nobody would leave it
                with contextlib.suppress(Error):
                    self._leave(by_error=True)
            raise

    def stop(self) -> None:
        """Leaves the session: what autograd saves from now on is not moved."""
        self._leave(by_error=False)

    def _leave(self, by_error: bool) -> None:
        _call(self._runtime.stop, by_error)
        self._is_entered = False
        self._last_use = _update.next_use()

    def step(self) -> None:
        """Ends a training step; if the session is entered, the next step begins.

        Entering counts a step by itself; in a session that stays entered, so does a forward after an optimizer's step. Call
        this if a step has several forwards.
        """
        if self._is_entered:
            self._own()
        _call(self._runtime.step)

    def close(self) -> None:
        """Ends the limit on memory. Backward through recorded graphs still works. Closing again has no effect."""
        if not self._is_closed:
            self._last_refusal = self.last_refusal
            if self._entries == 0 and self._version() == self._version_at_opening:
                self._has_warned.add("nothing")  # nothing trained meanwhile
            report = self._last = self._report_now()  # before: another thread may ask for one
            try:
                _call(self._runtime.close)
            except Error:
                self._last = None
                raise
            self._is_closed = True
            if self._states is not None:
                self._states.close()
                self._states = None
            _update.forget(self)
            self._warn_if_nothing_recorded(report)

    def report(self) -> Report:
        """Returns what the session did so far; a closed session returns its last report."""
        if self._last is not None:
            return self._last
        try:
            report = self._report_now()
        except StateError:
            if self._last is not None:  # another thread has closed it meanwhile
                return self._last
            raise
        self._warn_if_nothing_recorded(report)
        return report

    def _report_now(self) -> Report:
        return Report(*_call(self._runtime.report))

    @property
    def last_refusal(self) -> dict[str, Any] | None:
        """The last `torch.OutOfMemoryError` of this session in numbers and codes, or None.

        `needed_bytes` is the smallest budget under which that allocation would have fitted; docs/python.md lists the rest.
        """
        if self._is_closed:
            return self._last_refusal
        try:
            refusal: str = _call(self._runtime.last_refusal)
        except StateError:
            if self._is_closed or self._last is not None:  # as above
                return self._last_refusal
            raise
        return json.loads(refusal) if refusal else None

    def explain(self, module: str = "") -> str:
        """Lists every tensor that the last forward saved in a module: its bytes, and why it stayed or where it went.

        Args:
            module: A path as in `model.named_modules()`; empty: the whole model.
        """
        if not isinstance(module, str):
            raise OptionError("module", f"expected a path such as 'layers.0', got a {type(module).__name__}")
        try:
            self._model.get_submodule(module)
        except AttributeError:
            raise OptionError("module", f"the model has no '{module}'") from None
        return _call(self._runtime.explain, _options.utf8(module))

    def timeline(self, file: str | os.PathLike[str]) -> None:
        """Writes the last steps as JSON for Perfetto or chrome://tracing: stalls, copies, NVMe, phases."""
        _call(self._runtime.write_timeline, _options.utf8_path("file", os.fspath(file)))

    def trace(self, file: str | os.PathLike[str]) -> None:
        """Writes what a training step does: its points, their times and memory, every saved tensor and how to make it again.

        Of the step after the next, so that the next one warms up what that needs. The file is whole when the step after it
        begins, or when the session closes. A session without pressure, with as much memory as plain training takes, gives the
        times of plain training.

        Args:
            file: It becomes JSON as docs/formats/trace.md describes; `spillway trace` shows it.
        """
        _call(self._runtime.trace, _options.utf8_path("file", os.fspath(file)))

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "entered" if self._is_entered else "open"
        return f"<spillway session of a {type(self._model).__name__} on {self._device}, {state}>"

    def __enter__(self) -> "Session":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self._leave(by_error=False)
            except BaseException as failure:
                if not isinstance(failure, Error):  # Ctrl-C or a signal's, maybe after the runtime was left
                    with contextlib.suppress(Error):
                        _call(self._runtime.stop, True)
                    self._is_entered = False
                raise
            return
        # The error in flight is the user's to see. What was entered in this `with` and not left is left first.
        for session in [*_update.entered_since(self), self]:
            with contextlib.suppress(Error):
                session._leave(by_error=True)

    def __del__(self) -> None:
        if not self._is_closed and self._entries == 0:
            self._is_dying = True
            self._warn_of_nothing_recorded()

    def _warn_if_steps_are_outside(self) -> None:
        """After an optimizer's step."""
        if self._entries == 0:
            self._warn_of_nothing_recorded(at_opening=True)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise StateError("a session cannot be copied or pickled, since it is of this process and of this model; leave it "
                         "out of what is copied (`__deepcopy__`, `__getstate__`), and open one for the copy")

    def _warn(self, what: str, words: str, *, at_opening: bool = False) -> None:
        """Warns once per session."""
        if what not in self._has_warned:
            self._has_warned.add(what)
            if self._is_dying or at_opening:  # points at the line that opened it, not at the one that let go of it
                warnings.warn_explicit(words, SpillwayWarning, *self._opened_at)
            else:
                warnings.warn(words, SpillwayWarning, stacklevel=_levels_to_the_caller())

    @staticmethod
    def _needs_place(policy: str, recompute: str) -> bool:
        """Where nothing can move, what a policy decides at run time is made again, and its plan is not made."""
        known = next((each for each in policies() if each.name == policy.partition(":")[0]), None)
        return known is not None and known.moves and (known.plans or recompute == "off")

    def _warn_of_no_place(self, *, makes_again: bool) -> None:
        """Not if the budget exceeds the machine's memory: such a session only measures."""
        limit = self._report_now()["device_limit_bytes"]
        if limit < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
            fails = "it can only make some of them again, and makes no plan" if makes_again else "a step over budget fails"
            self._warn("place", f"this Spillway session has nowhere to move saved tensors: {fails}; "
                                "give it a folder on a disk (nvme='/scratch') or a host_budget")

    def _warn_if_nothing_recorded(self, report: Report) -> None:
        if report["saved_tensors"] == 0 and self.last_refusal is None:
            self._warn_of_nothing_recorded()

    def _warn_of_nothing_recorded(self, *, at_opening: bool = False) -> None:
        if self._entries == 0:
            why = "it was opened and never entered; run the forward in `with session:`"
        else:
            why = ("it was entered, but autograd saved nothing in it on the thread that entered it; run the forward on that "
                   "thread, inside the `with`, not under no_grad or inference_mode, and not inside another session or "
                   "other saved-tensor hooks, which take what is saved")
        self._warn("nothing", f"this Spillway session has recorded nothing, so nothing moves and little is counted: {why}",
                   at_opening=at_opening)

    def _share_of(self, parameters: set[int]) -> set[int]:
        """Which of `parameters`, by identity, its model has."""
        return parameters.intersection(map(id, self._model.parameters()))

    def _count_state_of(self, optimizer: torch.optim.Optimizer) -> None:
        """Before its step: what it has of earlier steps, if this session has not seen one."""
        if not optimizer.state or (optimizer in self._seen and not self._was_refused):
            return
        self._seen.setdefault(optimizer)
        try:
            self._own()
        except StateError:  # another thread has closed it meanwhile
            pass
        except BudgetError as refusal:  # it may be another one than the user has in mind
            self._was_refused = True
            file, line = self._opened_at
            raise BudgetError(refusal.option, f"{refusal._why} (of the session opened at {file}:{line})",
                              refusal.code, refusal.number, refusal.bound) from None

    def _update_begins(self, state_bytes: int, parameters: list[torch.Tensor]) -> bool:
        """An optimizer's step begins that will keep so many bytes more. Returns whether its end needs no call."""
        try:
            return _call(self._runtime.begin_update, state_bytes, parameters)
        except StateError:  # another thread has closed it meanwhile
            return True

    def _has_updated(self, optimizer: torch.optim.Optimizer) -> None:
        """Its step has succeeded: its state counts from now on."""
        if self._is_closed:
            return
        states = fingerprint(state_tensors([optimizer]))
        if self._was_refused or self._seen.get(optimizer) != states:
            self._seen[optimizer] = states
            # Closed meanwhile; or a budget does not hold what is there now: the parameters have changed already, so the
            # next entry reports it.
            try:
                self._own()
            except StateError:
                pass
            except BudgetError:
                self._was_refused = True

    def _update_ends(self) -> None:
        _call(self._runtime.end_update)

    def _version(self) -> int:
        """Grows when a parameter is written."""
        return sum(parameter._version for parameter in self._model.parameters()
                   if not isinstance(parameter, UninitializedTensorMixin) and not parameter.is_inference())

    def _warn_of_unseen_updates(self) -> None:
        if self._is_stepping:
            return
        now = self._version()
        is_unseen = self._versions not in (None, now) and not self._has_stepped
        self._unseen_updates = self._unseen_updates + 1 if is_unseen else 0
        if self._unseen_updates > 1 and not self._optimizers:  # once may be a state_dict that was loaded
            self._warn("update", "parameters were updated by something other than a torch.optim optimizer: its state and "
                                 "allocations are not counted in this Spillway session's budget; step inside the `with`, and pass it as "
                                 "optimizer= if it has a `state` like torch's")
        self._versions = now
        self._has_stepped = False

    def _all_optimizers(self) -> list[Any]:
        """Those whose state stays."""
        seen = [] if self._states is not None else self._seen
        return [*self._optimizers, *(each for each in seen if each not in self._optimizers)]

    def _own(self) -> None:
        """Passes the tensors that are never moved to the runtime, if they have changed."""
        parameters = list(self._model.parameters())
        now = tuple(map(fingerprint, (parameters, [parameter.grad for parameter in parameters], self._model.buffers(),
                                       state_tensors(self._all_optimizers()))))
        if now == self._last_owned:
            return
        owned = list(owned_tensors(self._model, self._all_optimizers()))
        moved = next((p for p in parameters if p.device != self._device), None)
        if moved is not None and self._last_owned is None:
            raise OptionError("model", f"the model has parameters on {self._device} and {moved.device}; a session supports one device")
        if moved is not None:
            raise OptionError("model", f"it was on {self._device} when the session began and has a parameter on "
                                       f"{moved.device} now; open a session after the move")
        if words := what_is_not_counted(owned):
            self._warn("size", words)
        _call(self._runtime.own, [tensor for _, _, tensor in owned], [_options.utf8(name) for _, name, _ in owned],
              [kind for kind, _, _ in owned])
        self._last_owned = now
        self._was_refused = False
