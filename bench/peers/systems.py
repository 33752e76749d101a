# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The systems of bench-peers: how each calls a block of the model. Spillway edits nothing: it is "plain"."""

import functools

import torch
from model import Call, Wrap
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

_aten = torch.ops.aten
# The products, convolutions and attention: what costs most to do again.
_SAVED = [
    _aten.mm.default,
    _aten.addmm.default,
    _aten.bmm.default,
    _aten.convolution.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
]


def plain(number: int, block: nn.Module) -> Call:
    return block


def checkpoint_every(number: int, block: nn.Module) -> Call:
    return functools.partial(checkpoint, block, use_reentrant=False)


def checkpoint_second(number: int, block: nn.Module) -> Call:
    return checkpoint_every(number, block) if number % 2 == 0 else block


def selective(number: int, block: nn.Module) -> Call:
    contexts = functools.partial(create_selective_checkpoint_contexts, _SAVED)
    return functools.partial(checkpoint, block, use_reentrant=False, context_fn=contexts)


def remat(number: int, block: nn.Module) -> Call:
    import torch_remat  # only where this system is asked for

    return torch_remat.checkpoint(region_name=f"blocks.{number}")(block)


def rounded(number: int, block: nn.Module) -> Call:
    """Wrong on purpose: floats wait as bfloat16. For the bench to show that it sees that."""

    def pack(saved: Tensor) -> tuple[torch.dtype, Tensor]:
        return saved.dtype, saved.bfloat16() if saved.is_floating_point() else saved

    def unpack(packed: tuple[torch.dtype, Tensor]) -> Tensor:
        return packed[1].to(packed[0])

    def call(x: Tensor) -> Tensor:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return block(x)

    return call


WRAPS: dict[str, Wrap] = {
    "plain": plain,
    "checkpoint": checkpoint_every,
    "checkpoint_2nd": checkpoint_second,
    "sac": selective,
    "torch_remat": remat,
    "rounded": rounded,
}
