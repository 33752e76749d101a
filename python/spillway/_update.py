# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""An open session takes part in the step of every torch optimizer that holds parameters of its model. Torch calls global
hooks before and after each step."""

import inspect
import os
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from .session import Session

_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()
_stateless: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()
_is_watching = False


class _Arguments(tuple[Any, ...]):
    """A step's arguments, for sessions that do not learn of its end otherwise. The frame that runs the step holds them, so
    they end with it; torch calls no hook after a step that raised."""

    untold: "weakref.WeakSet[Session]"

    def end(self) -> None:
        untold = list(self.untold)  # living ones alone
        self.untold.clear()
        for session in untold:
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


def _of(optimizer: torch.optim.Optimizer) -> "list[Session]":
    return [session for session in list(_sessions) if session._trains(optimizer)]


def _coming_state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The bytes of state that the first step of a torch optimizer will allocate and keep; 0 if that is not known, and after
    the first step. Found by a step of an optimizer of the same class on the meta device."""
    if optimizer.state or optimizer in _stateless or not type(optimizer).__module__.startswith("torch.optim."):
        return 0
    probe = torch.nn.Parameter(torch.empty(64, device="meta"))
    probe.grad = torch.empty_like(probe)
    names = inspect.signature(type(optimizer)).parameters
    options = {name: value for name, value in optimizer.defaults.items() if name in names and name not in ("foreach", "fused")}
    try:
        twin: Any = type(optimizer)([probe], **options)
        twin.step()
    except Exception:  # an estimate for a message is not worth an error
        return 0
    states = sum(isinstance(state, torch.Tensor) and state.shape == probe.shape for state in twin.state[probe].values())
    if states == 0:
        _stateless.add(optimizer)  # would be tried before every step
    return states * sum(parameter.nbytes for group in optimizer.param_groups for parameter in group["params"]
                        if parameter.grad is not None and parameter.layout is torch.strided)


def _before(
    optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    sessions = _of(optimizer)
    coming = _coming_state_bytes(optimizer) if sessions else 0
    untold = [session for session in sessions if not session._update_begins(coming)]
    if not untold:
        return None
    arguments = _Arguments(args)
    arguments.untold = weakref.WeakSet(untold)
    return arguments, kwargs


def _after(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for session in _of(optimizer):
        session._has_updated(optimizer)
    if isinstance(args, _Arguments):
        args.end()
