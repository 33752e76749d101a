# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The model of bench-peers: a GPT over bytes, as plain as it can be, and its batches.

What its blocks save for backward is most of the memory of a step: weights, gradients and the optimizer's
state have to fit under a quarter of the peak, and leave room to work in.
"""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

# How a block is called is what the systems differ in.
Call = Callable[[Tensor], Tensor]
Wrap = Callable[[int, nn.Module], Call]


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    heads: int
    width: int
    batch: int
    sequence: int
    vocab: int


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))

    def attention(self, x: Tensor) -> Tensor:
        batch, sequence, width = x.shape
        parts = self.qkv(x).view(batch, sequence, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.projection(mixed.transpose(1, 2).reshape(batch, sequence, width))


class Gpt(nn.Module):
    def __init__(self, shape: Shape, wrap: Wrap) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocab, shape.width)
        self.positions = nn.Embedding(shape.sequence, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocab, bias=False)
        self.calls = [wrap(number, block) for number, block in enumerate(self.blocks)]

    def forward(self, text: Tensor) -> Tensor:
        """The loss of each byte after the first, given those before it."""
        inputs, targets = text[:, :-1], text[:, 1:]
        x = self.tokens(inputs) + self.positions.weight[: inputs.shape[1]]
        for call in self.calls:
            x = call(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def text(shape: Shape, seed: int) -> Tensor:
    """One batch: bytes that repeat with a period of each line's own, so that there is something to learn."""
    random = torch.Generator().manual_seed(seed)
    lines = torch.randint(shape.vocab, (shape.batch, 1 + shape.sequence // 4), generator=random)
    return lines.repeat(1, 4)[:, : shape.sequence + 1].contiguous()
