# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""An open session takes part in the step of every torch optimizer that holds parameters of its model. Torch calls global
hooks before and after each step."""

import itertools
import os
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import UninitializedTensorMixin
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ._states import kept_for_a_parameter

if TYPE_CHECKING:
    from .session import Session

_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()
_is_watching = False
_uses = itertools.count()


def next_use() -> int:
    """Orders when sessions were opened, entered and left."""
    return next(_uses)


class _Arguments(tuple[Any, ...]):
    """A step's arguments, for sessions that do not learn of its end otherwise. The frame that runs the step holds them, so
    they end with it; torch calls no hook after a step that raised."""

    waiting: "weakref.WeakSet[Session]"

    def end(self) -> None:
        waiting = list(self.waiting)  # living ones alone
        self.waiting.clear()
        for session in waiting:
            session._update_ends()

    def __del__(self) -> None:
        self.end()


def watch(session: "Session") -> None:
    """From now on `session` takes part in optimizers' steps, for as long as it lives."""
    global _is_watching
    _sessions.add(session)
    if not _is_watching:
        _is_watching = True
        register_optimizer_step_pre_hook(_before)
        register_optimizer_step_post_hook(_after)
        os.register_at_fork(after_in_child=_sessions.clear)  # there a session neither caps nor records


def forget(session: "Session") -> None:
    _sessions.discard(session)


def _opened() -> "list[Session]":
    while True:
        try:
            return list(_sessions)
        except RuntimeError:  # another thread has opened or closed one meanwhile
            continue


def entered_since(session: "Session") -> "list[Session]":
    """Those that were entered after it and not left, the last one first."""
    later = [each for each in _opened() if each._is_entered and each._last_use > session._last_use]
    return sorted(later, key=lambda each: each._last_use, reverse=True)


def is_plain(parameter: torch.Tensor) -> bool:
    """No wrapper, whose storage is none, nor a lazy one."""
    return type(parameter) is torch.nn.Parameter or not (
        is_traceable_wrapper_subclass(parameter) or isinstance(parameter, UninitializedTensorMixin))


def _that_train(optimizer: torch.optim.Optimizer) -> "dict[Session, set[int]]":
    """With what of the optimizer's parameters each has, by identity."""
    given = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    shares = ((session, session._share_of(given)) for session in _opened())
    return {session: share for session, share in shares if share}


def _take_part(that_train: "dict[Session, set[int]]") -> "list[Session]":
    """Those that are entered; and, of those that share parameters with each other, the one that was opened, entered or left
    last. An older one may be forgotten, or kept by the traceback of its own error."""
    taking: list[Session] = []
    taken: set[int] = set()
    for session in sorted(that_train, key=lambda session: (session._is_entered, session._last_use), reverse=True):
        if session._is_entered or taken.isdisjoint(that_train[session]):
            taking.append(session)
            taken |= that_train[session]
    return taking


def _that_moves_state(taking: "list[Session]") -> "Session | None":
    """The one of these that has the optimizer's state between its steps."""
    return next((session for session in taking if session._states is not None), None)


def _coming_state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The bytes of state that the first step of an optimizer of torch will allocate and keep, by a table of how many tensors
    of a parameter's size each class keeps for it. 0 if that is not known, and once there is state."""
    if optimizer.state:
        return 0
    return sum((kept_for_a_parameter(optimizer, group) or 0) * parameter.nbytes
               for group in optimizer.param_groups for parameter in group["params"]
               if parameter.grad is not None and parameter.layout is torch.strided)


def _before(
    optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    that_train = _that_train(optimizer)
    taking = _take_part(that_train)
    for session in taking:
        session._count_state_of(optimizer)  # may refuse: before anything has changed
    for session in that_train:
        session._is_stepping = True
    moving = _that_moves_state(taking)
    coming = _coming_state_bytes(optimizer) if taking and moving is None else 0
    stepped = [parameter for group in optimizer.param_groups for parameter in group["params"]
               if parameter.grad is not None and is_plain(parameter)] if taking else []
    waiting = [session for session in taking
               if not session._update_begins(coming, [each for each in stepped if id(each) in that_train[session]])]
    for session in that_train:
        if session is not moving and session._states is not None:
            session._states.give_back(optimizer)  # another one has it from now on
    instead = None
    if moving is not None and moving._states is not None:
        try:
            instead = moving._states.begin(optimizer, args, kwargs, _before)
        except BaseException:
            for session in waiting:
                session._update_ends()
            raise
    args, kwargs = instead or (args, kwargs)
    if not waiting:
        return instead
    arguments = _Arguments(args)
    arguments.waiting = weakref.WeakSet(waiting)
    return arguments, kwargs


def _after(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    that_train = _that_train(optimizer)
    for session in that_train:
        session._is_stepping = False
        session._has_stepped = True
        session._seen.setdefault(optimizer)  # its state counts from the next entry on, also where another session takes part
    taking = _take_part(that_train)
    if (moving := _that_moves_state(taking)) is not None and moving._states is not None:
        moving._states.end(optimizer)
    for session in taking:
        session._has_updated(optimizer)
        session._warn_if_steps_are_outside()
    if isinstance(args, _Arguments):
        args.end()
