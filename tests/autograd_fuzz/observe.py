# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a program can see of a tensor or an error, in a form that two runs can compare."""

import re
import zlib

import torch
from torch import Tensor

_AS_WORDS = {torch.bfloat16: torch.int16, torch.complex32: torch.int32,  # numpy has no such numbers
             getattr(torch, "bcomplex32", torch.complex32): torch.int32}  # which torch 2.11 has not
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def bits(tensor: Tensor) -> int:
    """A checksum of the elements in their order; allocates nothing of torch's for plain tensors."""
    plain = tensor.detach()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    if plain._is_zerotensor():  # zeros that have no memory
        plain = plain.clone()
    if plain.dtype in _AS_WORDS:
        plain = plain.view(_AS_WORDS[plain.dtype])
    return zlib.crc32(plain.numpy().tobytes())


def tensor(value: Tensor | None, is_gradient: bool = False) -> tuple[object, ...]:
    """A kept gradient's version tells only whether torch took it over or copied it, as others held it or not."""
    if value is None:
        return ("None",)
    try:
        node = type(value.grad_fn).__name__
    except RuntimeError as forbidden:  # a view of a custom Function, and its base was written
        return error(forbidden)
    strided = value.layout == torch.strided
    where = (tuple(value.stride()), value.storage_offset()) if strided else ()
    return (str(value.dtype), tuple(value.shape), where, value.requires_grad, value.is_leaf, node,
            "" if is_gradient else version(value), bits(value))


def version(value: Tensor) -> int | str:
    """Of what an inference tensor was given to by `.data =`, torch has none, though it is none itself."""
    try:
        return "inference" if value.is_inference() else value._version
    except RuntimeError as untracked:
        return str(untracked)


def gradient(value: Tensor) -> tuple[object, ...]:
    """Where one is kept; those of leaves are told by each backward, too."""
    try:
        keeps = value.requires_grad and (value.is_leaf or value.retains_grad)
    except RuntimeError as forbidden:
        return error(forbidden)
    return tensor(value.grad, is_gradient=True) if keeps else ()


def error(raised: BaseException) -> tuple[str, str]:
    return (type(raised).__name__, _ADDRESS.sub("0x", str(raised)))


def is_out_of_memory(raised: BaseException | None) -> bool:
    while raised is not None:
        if isinstance(raised, torch.OutOfMemoryError):
            return True
        raised = raised.__cause__ or raised.__context__
    return False
