# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a model and its optimizers own: the tensors that are never moved, and whether they are still the same."""

import gc
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch.nn.parameter import UninitializedTensorMixin
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def parts_of(tensor: object) -> Iterator[torch.Tensor]:
    """The tensors that have the storage: those inside a wrapper (a sharded or quantized tensor), none of a lazy
    parameter, else the tensor itself."""
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, UninitializedTensorMixin):
        return
    if is_traceable_wrapper_subclass(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            yield from parts_of(getattr(tensor, name))
        return
    yield getattr(tensor, "_local_tensor", tensor)


def _is_only_a_size(tensor: torch.Tensor) -> bool:
    """A wrapper whose class does not say what is inside (no `__tensor_flatten__`): its storage has a size and no data."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided or tensor.is_meta:
        return False
    return tensor.data_ptr() == 0 and tensor.untyped_storage().nbytes() > 0


def owned_tensors(
    model: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer]
) -> Iterator[tuple[str, str, torch.Tensor]]:
    """The tensors that are never moved, with their kinds, as the runtime names them, and their names."""
    def named() -> Iterator[tuple[str, str, torch.Tensor]]:
        for name, parameter in model.named_parameters():
            yield "parameter", name, parameter
            if parameter.grad is not None:
                yield "gradient", f"{name}.grad", parameter.grad
        for name, buffer in model.named_buffers():
            yield "buffer", name, buffer
        for optimizer in optimizers:
            for state in optimizer.state.values():
                for name, value in _named_states(state):
                    for tensor in tensors_in(value):
                        yield "optimizer_state", f"optimizer state {name}", tensor

    for kind, name, tensor in named():
        yield from ((kind, name, part) for part in parts_of(tensor))


def what_is_not_counted(owned: Iterable[tuple[str, str, torch.Tensor]]) -> str:
    """A warning's words about the first of `owned_tensors` whose bytes nobody knows; empty where there is none."""
    for _, name, tensor in owned:
        if _is_only_a_size(tensor):
            return (f"{name} is of class {type(tensor).__qualname__}, which does not say what tensors are inside it "
                    "(`__tensor_flatten__`): its bytes are not counted in this Spillway session's budget")
    return ""


def _named_states(state: object) -> Iterator[tuple[str, object]]:
    """By name, as torch's own optimizers keep the state of a parameter; others may keep state of no parameter."""
    if isinstance(state, dict):
        yield from state.items()
    else:
        yield "of no parameter", state


def optimizers_with_state(model: torch.nn.Module) -> list[torch.optim.Optimizer]:
    """Those of the process that train a parameter of `model` and have state. Looks at every object, some 0.05 s.

    By what refers to optimizers' classes: `gc.get_objects` refers to every object, and a tuple that another thread is just
    building does not stand that (SystemError: bad argument to internal function)."""
    parameters = {id(parameter) for parameter in model.parameters()}
    return [each for each in gc.get_referrers(*_with_subclasses(torch.optim.Optimizer))
            # The type alone: other objects may run code when they are asked for their class.
            if issubclass(type(each), torch.optim.Optimizer) and getattr(each, "state", None)
            and any(id(parameter) in parameters for group in each.param_groups for parameter in group["params"])]


def _with_subclasses(of: type) -> set[type]:
    return {of}.union(*(_with_subclasses(each) for each in type.__subclasses__(of)))


def state_tensors(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[torch.Tensor]:
    for optimizer in optimizers:
        for state in optimizer.state.values():
            yield from tensors_in(state)


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """In lists and mappings, too: L-BFGS keeps its history in a list."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from tensors_in(each)


def _address(tensor: torch.Tensor) -> int:
    try:
        return tensor.data_ptr()
    except RuntimeError:  # an optimizer's state that is away: its bytes are no tensor's
        return 0


def fingerprint(tensors: Iterable[torch.Tensor | None]) -> int:
    """Another number once one of them has other bytes: by address and size, or by identity if it has no single address."""
    return hash(tuple((_address(part), part.nbytes) if part.layout is torch.strided else id(part)
                      for tensor in tensors for part in parts_of(tensor)))
