# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizers' state leaves the device between steps. A step of torch's own optimizers goes over the parameters in pieces, with
the state of one piece on the device at a time; each piece is that optimizer's own step for parameters that alone have
gradients, and such an optimizer treats each parameter apart, so the bits are those of one step over all."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import optimizer as torch_hooks

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


def _has_hooks(optimizer: torch.optim.Optimizer, before: object, after: object) -> bool:
    """Whether others run between our two hooks and the step, and so would see it without gradients."""
    own = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    last_before = next(reversed(torch_hooks._global_optimizer_pre_hooks.values()), None)
    first_after = next(iter(torch_hooks._global_optimizer_post_hooks.values()), None)
    return bool(own) or last_before is not before or first_after is not after


class States:
    """Of the optimizers that train a session's model. `runtime`: the session's."""

    def __init__(self, runtime: Any, budget_bytes: int) -> None:
        self._runtime = runtime
        self._budget_bytes = budget_bytes
        self._watched: weakref.WeakKeyDictionary[torch.optim.Optimizer, Any] = weakref.WeakKeyDictionary()
        self._is_turned: weakref.WeakKeyDictionary[torch.optim.Optimizer, bool] = weakref.WeakKeyDictionary()
        # Of a step by pieces, until its end: the optimizer's own step, which follows, finds none to use.
        self._gradients: list[tuple[torch.nn.Parameter, torch.Tensor]] = []

    def begin(self, optimizer: torch.optim.Optimizer, arguments: tuple[Any, ...], before: object, after: object) -> None:
        """Before the optimizer's step, of which `arguments` are all that was given by position or name, and `before` and
        `after` our hooks: takes it by pieces, or brings all of its state back."""
        self.give_gradients_back()
        self._watch(optimizer)
        is_plain = all(argument is None for argument in arguments) and not torch.compiler.is_compiling()
        pieces = self._pieces(optimizer) if is_plain and not _has_hooks(optimizer, before, after) else []
        if len(pieces) > 1:
            self._step_by_pieces(optimizer, pieces)
        else:
            self._runtime.bring_back(_all_state_of([optimizer]))

    def end(self, optimizer: torch.optim.Optimizer) -> None:
        """After it."""
        self.give_gradients_back()
        self.let_leave([optimizer])

    def let_leave(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """What a checkpoint, saved or loaded, has given them, too. In the session, which counts what that takes."""
        self._runtime.let_leave(_all_state_of(optimizers))

    def give_back(self, optimizer: torch.optim.Optimizer) -> None:
        """All of its state may be read, until its next step."""
        self._runtime.give_back(_all_state_of([optimizer]))

    def give_gradients_back(self) -> None:
        """Also those of a step that raised."""
        gradients, self._gradients = self._gradients, []
        for parameter, gradient in gradients:
            parameter.grad = gradient

    def _pieces(self, optimizer: torch.optim.Optimizer) -> list[list[torch.nn.Parameter]]:
        """The parameters that have a gradient, in the optimizer's order; a parameter of much state is alone. In turn from the
        first to the last and back: what left last is needed first then. Empty: it has to step over all at once."""
        sizes: list[tuple[torch.nn.Parameter, int]] = []
        for group in optimizer.param_groups:
            kept = kept_for_a_parameter(optimizer, group)
            if kept is None:
                return []
            sizes += [(parameter, kept * parameter.nbytes) for parameter in group["params"] if parameter.grad is not None]
        most_bytes = max(_LEAST_PIECE_BYTES, min(self._budget_bytes, sum(size for _, size in sizes)) // _PIECE_SHARE)
        pieces: list[list[torch.nn.Parameter]] = []
        bytes_so_far = 0
        for parameter, size_bytes in sizes:
            if not pieces or bytes_so_far + size_bytes > most_bytes:
                pieces.append([])
                bytes_so_far = 0
            pieces[-1].append(parameter)
            bytes_so_far += size_bytes
        is_turned = self._is_turned[optimizer] = not self._is_turned.get(optimizer, True)
        return pieces[::-1] if is_turned else pieces

    def _step_by_pieces(self, optimizer: torch.optim.Optimizer, pieces: list[list[torch.nn.Parameter]]) -> None:
        step = type(optimizer).step.__wrapped__  # torch wraps it in what calls hooks
        gradients = [[(parameter, parameter.grad) for parameter in piece] for piece in pieces]
        self._gradients = [(parameter, gradient) for piece in gradients for parameter, gradient in piece if gradient is not None]
        for parameter, _ in self._gradients:
            parameter.grad = None
        try:
            for piece in gradients:
                self._runtime.bring_back(_state_of(optimizer, piece))
                for parameter, gradient in piece:
                    parameter.grad = gradient
                step(optimizer)
                for parameter, _ in piece:
                    parameter.grad = None
                self._runtime.let_leave(_state_of(optimizer, piece))
        except BaseException:
            self.give_gradients_back()
            raise

    def _watch(self, optimizer: torch.optim.Optimizer) -> None:
        """A checkpoint has its state."""
        if optimizer not in self._watched:
            mine = weakref.ref(self)

            def before_state_dict(optimizer: torch.optim.Optimizer) -> None:
                if (states := mine()) is not None:
                    states.give_back(optimizer)

            self._watched[optimizer] = optimizer.register_state_dict_pre_hook(before_state_dict)


def _all_state_of(optimizers: Iterable[torch.optim.Optimizer]) -> list[torch.Tensor]:
    return [part for tensor in state_tensors(optimizers) for part in parts_of(tensor)]


def _state_of(optimizer: torch.optim.Optimizer, piece: Iterable[tuple[torch.nn.Parameter, object]]) -> list[torch.Tensor]:
    return [part for parameter, _ in piece for tensor in tensors_in(optimizer.state.get(parameter)) for part in parts_of(tensor)]
