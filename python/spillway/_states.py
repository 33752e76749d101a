# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizers' state leaves the device between steps. A step of torch's own optimizers goes over the parameters in pieces, with
the state of one piece on the device at a time; each piece is that optimizer's own step over some of its parameters, and such
an optimizer treats each parameter apart, so the bits are those of one step over all."""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch.optim import optimizer as hooks

from ._owned import parts_of, state_tensors, tensors_in

# A piece's state is this share of the budget, or of all state where that is less: it is beside all parameters and
# gradients, and the next piece's is read meanwhile. A choice, not a measurement yet.
_PIECE_SHARE = 32
_LEAST_PIECE_BYTES = 1 << 20

# Of each class of torch.optim that treats every parameter apart: how many tensors of a parameter's size it keeps for it.
_KEPT: dict[str, Callable[[dict[str, Any]], int]] = {
    "Adadelta": lambda group: 2,
    "Adam": lambda group: 3 if group.get("amsgrad") else 2,
    "AdamW": lambda group: 3 if group.get("amsgrad") else 2,
    "Adamax": lambda group: 2,
    "ASGD": lambda group: 1,
    "Muon": lambda group: 1,
    "NAdam": lambda group: 2,
    "RAdam": lambda group: 2,
    "RMSprop": lambda group: 1 + (group["momentum"] > 0) + bool(group["centered"]),
    "Rprop": lambda group: 2,
    "SGD": lambda group: int(group["momentum"] != 0),
}


def kept_for_a_parameter(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> int | None:
    """How many tensors of a parameter's size the optimizer keeps for each of the group; None: that is not known."""
    name = type(optimizer).__name__
    if type(optimizer) is not getattr(torch.optim, name, None) or name not in _KEPT:
        return None
    return _KEPT[name](group)


def _has_hooks(optimizer: torch.optim.Optimizer, ours: object) -> bool:
    """Whether others run between our hook and the step: they may be to change the gradients first."""
    return bool(optimizer._optimizer_step_pre_hooks) or next(reversed(hooks._global_optimizer_pre_hooks.values()), None) is not ours


class _Piece(NamedTuple):
    """Some parameters of one group."""

    group: dict[str, Any]
    parameters: list[torch.nn.Parameter]


class States:
    """Of the optimizers that train a session's model. `runtime`: the session's."""

    def __init__(self, runtime: Any, budget_bytes: int) -> None:
        self._runtime = runtime
        self._budget_bytes = budget_bytes
        self._lock = threading.RLock()  # no step begins while state is let leave
        self._watched: weakref.WeakKeyDictionary[torch.optim.Optimizer, Any] = weakref.WeakKeyDictionary()
        self._is_turned: weakref.WeakKeyDictionary[torch.optim.Optimizer, bool] = weakref.WeakKeyDictionary()

    def begin(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any], ours: object
              ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Before the optimizer's step, of which the runtime knows: takes it by pieces, and returns what torch is to step with
        in its place, or brings all of its state back. `ours`: the hook that calls this."""
        with self._lock:
            self._watch(optimizer)
        given = [*args[1:], *kwargs.values()]  # of a step of torch's own: a closure
        if len(given) < 2 and not torch.compiler.is_compiling() and not _has_hooks(optimizer, ours) and _is_apart(optimizer):
            closure = next(iter(given), None)
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            self._step_by_pieces(optimizer)
            return (_part_of(optimizer, []), *([lambda: loss] if closure is not None else [])), {}
        self._runtime.bring_back(_all_state_of([optimizer]))
        return None

    def end(self, optimizer: torch.optim.Optimizer) -> None:
        """After it."""
        with self._lock:
            if self._runtime.steps_under_way() <= 1:  # else inside another one's, which may be about to use it
                self._let_leave(_all_state_of([optimizer]))

    def let_leave(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """What a checkpoint, saved or loaded, has given them, too. In the session, which counts what that takes."""
        with self._lock:
            if self._runtime.steps_under_way() == 0:
                # A wrapper's (Accelerate's) state is that of the optimizer inside, which is among these, too.
                real = [each for each in optimizers if hasattr(each, "_optimizer_state_dict_pre_hooks")]
                for optimizer in real:
                    self._watch(optimizer)
                self._let_leave(_all_state_of(real))

    def give_back(self, optimizer: torch.optim.Optimizer) -> None:
        """All of its state may be read, until its next step."""
        self._runtime.give_back(_all_state_of([optimizer]))

    def close(self) -> None:
        """After the runtime's end."""
        for hook in self._watched.values():
            hook.remove()

    def _let_leave(self, states: list[torch.Tensor]) -> None:
        # The last one shows how often the runtime's own references count: a tensor that more refer to, as DLPack's
        # consumers do, stays.
        self._runtime.let_leave([*states, torch.empty(0)])

    def _pieces(self, optimizer: torch.optim.Optimizer) -> list[_Piece]:
        """The parameters that have a gradient, in the optimizer's order; a parameter of much state is alone. In turn from the
        first to the last and back: what left last is needed first then."""
        sizes = [(group, parameter, (kept_for_a_parameter(optimizer, group) or 0) * parameter.nbytes)
                 for group in optimizer.param_groups for parameter in group["params"] if parameter.grad is not None]
        most_bytes = max(_LEAST_PIECE_BYTES, min(self._budget_bytes, sum(size for _, _, size in sizes)) // _PIECE_SHARE)
        pieces: list[_Piece] = []
        bytes_so_far = 0
        for group, parameter, size_bytes in sizes:
            if not pieces or pieces[-1].group is not group or bytes_so_far + size_bytes > most_bytes:
                pieces.append(_Piece(group, []))
                bytes_so_far = 0
            pieces[-1].parameters.append(parameter)
            bytes_so_far += size_bytes
        is_turned = self._is_turned[optimizer] = not self._is_turned.get(optimizer, True)
        return pieces[::-1] if is_turned else pieces

    def _step_by_pieces(self, optimizer: torch.optim.Optimizer) -> None:
        step = type(optimizer).step.__wrapped__  # torch wraps it in what calls hooks
        for piece in self._pieces(optimizer):
            self._runtime.bring_back(_state_of(optimizer, piece.parameters))
            step(_part_of(optimizer, [{**piece.group, "params": piece.parameters}]))
            with self._lock:
                self._let_leave(_state_of(optimizer, piece.parameters))

    def _watch(self, optimizer: torch.optim.Optimizer) -> None:
        """A checkpoint has its state."""
        if optimizer not in self._watched:
            mine = weakref.ref(self)

            def before_state_dict(optimizer: torch.optim.Optimizer) -> None:
                if (states := mine()) is not None:
                    with contextlib.suppress(ValueError):  # the session is closed, and has given all back
                        states.give_back(optimizer)

            self._watched[optimizer] = optimizer.register_state_dict_pre_hook(before_state_dict, prepend=True)


def _is_apart(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step over some parameters is a part of one over all, by torch's own `step`."""
    step = type(optimizer).step
    return (all(kept_for_a_parameter(optimizer, group) is not None for group in optimizer.param_groups)
            and getattr(step, "__module__", "").startswith("torch.optim.") and hasattr(step, "__wrapped__"))


def _part_of(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """The same optimizer over these groups, with its state."""
    part: torch.optim.Optimizer = object.__new__(type(optimizer))
    part.__dict__.update(optimizer.__dict__)
    part.param_groups = groups
    return part


def _all_state_of(optimizers: Iterable[torch.optim.Optimizer]) -> list[torch.Tensor]:
    return [part for tensor in state_tensors(optimizers) for part in parts_of(tensor)]


def _state_of(optimizer: torch.optim.Optimizer, parameters: Iterable[torch.nn.Parameter]) -> list[torch.Tensor]:
    return [part for parameter in parameters for tensor in tensors_in(optimizer.state.get(parameter)) for part in parts_of(tensor)]
