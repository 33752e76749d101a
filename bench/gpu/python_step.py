#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A small transformer in Python on a GPU, plain and in sessions, with values that move and with values that may be made
again: prints one JSON line with losses, peaks and times; an error where a loss or a gradient has another bit.

    PYTHONPATH=build/gpu/python python3 bench/gpu/python_step.py
"""

import argparse
import contextlib
import json
import os
import sys
import time
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import spillway  # noqa: E402

STEPS = 4
SHARE = 0.6  # of what plain training takes beyond its weights, their gradients and the optimizer's state


class Block(torch.nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.before(x)).split(width, dim=2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.dropout(self.out(seen))
        return x + self.dropout(self.down(F.gelu(self.up(self.between(x)))))


class Model(torch.nn.Module):
    def __init__(self, layers: int, width: int, words: int = 4096) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.head = torch.nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Trained:
    """What a run of some steps left."""

    def __init__(self, device: torch.device, sizes: argparse.Namespace, **session: Any) -> None:
        torch.manual_seed(1)
        model = Model(sizes.layers, sizes.width).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        tokens = torch.randint(4096, (sizes.batch, sizes.sequence), device=device)
        opened = spillway.session(model, **session) if session else None
        self.losses, self.seconds = [], []
        for step in range(STEPS):
            torch.cuda.synchronize(device)
            if step == 1:
                torch.cuda.reset_peak_memory_stats(device)
            begin = time.perf_counter()
            with opened if opened is not None else contextlib.nullcontext(), torch.autocast("cuda", torch.bfloat16):
                loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            optimizer.step()
            self.losses.append(loss.item())
            self.seconds.append(time.perf_counter() - begin)
            if step + 1 < STEPS:
                optimizer.zero_grad()
        torch.cuda.synchronize(device)
        self.peak = torch.cuda.max_memory_allocated(device)
        self.reserved = torch.cuda.max_memory_reserved(device)
        self.kept = torch.cuda.memory_allocated(device)
        self.gradients = [p.grad.cpu() for p in model.parameters() if p.grad is not None]
        self.report = dict(opened.report()) if opened is not None else {}
        if opened is not None:
            opened.close()

    def line(self, plain: "Trained") -> dict[str, Any]:
        fields = ("device_limit_bytes", "device_peak_bytes", "device_resident_peak_bytes", "stored_bytes", "loaded_bytes",
                  "recomputed_bytes", "saved_bytes")
        same = [torch.equal(a, b) for a, b in zip(self.gradients, plain.gradients, strict=True)]
        return {"losses": self.losses, "step_seconds": sorted(self.seconds[1:])[len(self.seconds[1:]) // 2],
                "allocated_peak_bytes": self.peak, "reserved_peak_bytes": self.reserved,
                "same_losses": self.losses == plain.losses, "gradients": len(same), "same_gradients": sum(same),
                **{name: self.report[name] for name in fields if name in self.report}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 8), ("width", 1024), ("batch", 8), ("sequence", 1024)):
        parser.add_argument(f"--{name}", type=int, default=default)
    sizes = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    device = torch.device("cuda:0")
    line: dict[str, Any] = {"kind": "python step", "torch": torch.__version__, **vars(sizes), "error": None}
    try:
        plain = Trained(device, sizes)
        budget = int(plain.kept + SHARE * (plain.peak - plain.kept))
        line["plain"] = plain.line(plain)
        line["plain again"] = Trained(device, sizes).line(plain)
        for name, options in (("moved", {}), ("made again", {"recompute": "on"})):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
            found = Trained(device, sizes, device_budget=budget, host_budget=4 << 30, **options).line(plain)
            line[name] = {"budget_bytes": budget, **found}
            if not found["same_losses"] or found["same_gradients"] != found["gradients"]:
                line["error"] = line["error"] or f"{name}: a loss or a gradient has other bits than plain training's"
    except Exception as failure:  # one line, whatever it was
        line["error"] = f"{type(failure).__name__}: {str(failure).splitlines()[0]}"
    print(json.dumps(line))
    return int(line["error"] is not None)


if __name__ == "__main__":
    sys.exit(main())
