# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A small GPT on text, byte by byte, in a loop of one's own, under a budget of device memory:

    python examples/nanogpt.py --device-budget 28MiB --nvme build

The three lines with `session` are all that the budget needs. Without --device-budget it trains plainly, to the
same losses.
"""

import argparse
import contextlib
import pathlib

import torch
from torch import nn
from torch.nn import functional

import spillway


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        query, key, value = self.attention(x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.projection(mixed.transpose(1, 2).reshape(rows, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.before_attention(x))
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    def __init__(self, layers: int, heads: int, width: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, words: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        logits = self.head(self.norm(self.blocks(x)))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch(text: torch.Tensor, rows: int, length: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.randint(len(text) - length, (rows, 1))
    words = text[starts + torch.arange(length + 1)].to(device).long()
    return words[:, :-1], words[:, 1:]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = pathlib.Path(__file__).parent.parent / "docs" / "overview.md"
    parser.add_argument("--data", type=pathlib.Path, default=beside, help="a file of text (default: %(default)s)")
    parser.add_argument("--device-budget", help="bytes of device memory: 28MiB, 16GiB, 80%%; absent: train plainly")
    parser.add_argument("--nvme", help="a folder on a disk, for what does not fit")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    sizes = {"steps": 20, "layers": 4, "heads": 4, "width": 128, "length": 128, "batch": 16}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    torch.manual_seed(1)
    text = torch.frombuffer(bytearray(chosen.data.read_bytes()), dtype=torch.uint8)
    model = GPT(chosen.layers, chosen.heads, chosen.width, chosen.length).to(chosen.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    session = None
    if chosen.device_budget:
        session = spillway.session(model, device_budget=chosen.device_budget,
                                   nvme=chosen.nvme)
    for step in range(1, chosen.steps + 1):
        words, targets = batch(text, chosen.batch, chosen.length, chosen.device)
        with session or contextlib.nullcontext():
            loss = model(words, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.9f}")
    if session:
        print(session.report())
        session.close()


if __name__ == "__main__":
    main()
