# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Whole blocks that are made again by a plan, with no disk and no host memory: the bits of plain training."""

import contextlib
import functools
import unittest
from typing import Any

import spillway
import torch
from same_bits import Case, noise, seeded
from torch import nn
from torch.nn import functional

WIDTH, ROWS, BLOCKS, STEPS = 128, 512, 8, 4
IMAGE_BYTES = 8 * 16 * 32 * 32 * 4  # an activation of `resnet`


class Attention(nn.Module):
    def __init__(self, heads: int = 4, causal: bool = True) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm = nn.LayerNorm(WIDTH)
        self.of_input, self.of_heads = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.of_input(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(*parts, is_causal=self.causal)
        return x + self.of_heads(heads.transpose(1, 2).reshape(batch, length, WIDTH))


class Perceptron(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(WIDTH), nn.Dropout(dropout)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm(x)))))


class Gated(nn.Module):
    """Norm in single operators, and a gate, as LLaMA has them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.gate, self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(16) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norms[0](self.convolutions[0](x)), inplace=True)
        return functional.relu(x + self.norms[1](self.convolutions[1](inner)))


class Queued(nn.Module):
    """A queue of keys that each forward uses and then changes, as in momentum contrast."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Perceptron()
        self.register_buffer("keys", torch.randn(WIDTH, WIDTH) / WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = x + torch.tanh(x @ self.keys.clone())
        with torch.no_grad():
            self.keys[:, :8] = x[0, :8].t() / WIDTH
        return self.block(seen)


class Mixing(nn.Module):
    """Uses a buffer that backward does not need."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Perceptron()
        self.register_buffer("mixed", torch.randn(WIDTH, WIDTH) / WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x + self.scale * torch.tanh(x.detach() @ self.mixed))


class Decaying(nn.Sequential):
    """Writes the buffers of its blocks where each forward ends."""

    def __init__(self) -> None:
        super().__init__(*(Mixing() for _ in range(BLOCKS)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        for block in self:
            block.mixed.mul_(0.99)
        return y


def gpt(dropout: float = 0.0) -> nn.Module:
    return nn.Sequential(*(nn.Sequential(Attention(), Perceptron(dropout)) for _ in range(BLOCKS)))


def llama() -> nn.Module:
    return nn.Sequential(*(Gated() for _ in range(BLOCKS)))


def resnet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *(Residual() for _ in range(BLOCKS)))


def loss_of_rows(net: Any, step: int) -> torch.Tensor:
    return net(noise(8, ROWS // 8, WIDTH, step=step)).square().mean()


def loss_of_images(net: Any, step: int) -> torch.Tensor:
    return net(noise(8, 3, 32, 32, step=step)).square().mean()


MODELS = {"gpt": (gpt, loss_of_rows), "llama": (llama, loss_of_rows), "resnet": (resnet, loss_of_images)}


class Blocks(Case):
    def under(self, policy: str, budget: int | str = "1GiB", make: Any = gpt, loss_of: Any = loss_of_rows,
              **options: Any) -> tuple[list[str], spillway.Report]:
        net = seeded(make)
        session = self.open(net, budget, policy=policy, nvme=None, **options)
        seen = self.train(net, loss_of, lambda: session, steps=STEPS) + [str(buffer) for buffer in net.buffers()]
        report = session.report()
        session.close()
        return seen, report

    @classmethod
    @functools.cache
    def kept(cls, make: Any = gpt, loss_of: Any = loss_of_rows) -> int:
        """The peak with nothing moved."""
        net = seeded(make)
        with spillway.session(net, device_budget="1GiB", policy="keep_all") as session:
            loss = loss_of(net, 0)
        loss.backward()
        peak = session.report()["device_peak_bytes"]
        session.close()
        return int(peak)

    @staticmethod
    @functools.cache
    def plain(make: Any = gpt, loss_of: Any = loss_of_rows) -> list[str]:
        net = seeded(make)
        return Case.train(net, loss_of, steps=STEPS) + [str(buffer) for buffer in net.buffers()]

    def test_blocks_are_made_again_with_the_bits_of_plain_training(self) -> None:
        for name, (make, loss_of) in MODELS.items():
            plain = self.plain(make, loss_of)
            kept = self.kept(make, loss_of)
            for policy in ("recompute_all", "sqrt_checkpoint")[name == "llama":]:
                with self.subTest(f"{name} {policy}"):
                    seen, report = self.under(policy, make=make, loss_of=loss_of)
                    self.assertEqual(seen, plain)
                    plan = report["plan"]
                    self.assertEqual(plan["refusal"], "")
                    self.assertGreater(report["recomputed_bytes"], 0)
                    scratch = IMAGE_BYTES if name == "resnet" else 0  # a convolution's, while it runs again, is not foretold
                    self.assertLessEqual(plan["peak_bytes"], 1.03 * plan["foretold_peak_bytes"] + scratch)
                    self.assertLess(plan["peak_bytes"], 0.8 * kept)

    def test_a_budget_that_plain_training_does_not_meet_is_kept_without_a_disk(self) -> None:
        plain = self.plain()
        kept = self.kept()
        for policy in ("sqrt_checkpoint", "rotor"):
            with self.subTest(policy):
                seen, report = self.under(policy, int(0.65 * kept))
                self.assertEqual(seen, plain)
                self.assertEqual(report["plan"]["refusal"], "")
                self.assertLessEqual(report["device_peak_bytes"], 0.65 * kept)
                self.assertEqual(report["stored_bytes"], 0)

    def test_rotor_makes_no_more_again_than_its_budget_asks_for(self) -> None:
        kept = self.kept()
        made = [self.under("rotor", int(share * kept))[1]["recomputed_bytes"] for share in (1.2, 0.65)]
        self.assertLess(made[0], made[1])

    def test_what_dropout_drew_stays(self) -> None:
        make = lambda: gpt(dropout=0.1)  # noqa: E731
        seen, report = self.under("sqrt_checkpoint", make=make)
        self.assertEqual(seen, self.plain(make))
        self.assertGreater(report["recomputed_bytes"], 0)

    def test_a_buffer_that_each_forward_changes_is_no_source(self) -> None:
        make = lambda: nn.Sequential(*(Queued() for _ in range(BLOCKS)))  # noqa: E731
        seen, report = self.under("recompute_all", make=make)
        self.assertEqual(seen, self.plain(make))
        self.assertGreater(report["recomputed_bytes"], 0)

    def test_a_buffer_that_is_written_after_use_is_copied_before(self) -> None:
        seen, report = self.under("online", int(0.6 * self.kept(Decaying)), make=Decaying)
        self.assertEqual(seen, self.plain(Decaying))
        self.assertGreater(report["recomputed_bytes"], 0)

    def test_under_autocast(self) -> None:
        def loss_of(net: Any, step: int) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return loss_of_rows(net, step).float()

        seen, report = self.under("sqrt_checkpoint", make=llama, loss_of=loss_of)
        self.assertEqual(seen, self.plain(llama, loss_of))
        self.assertGreater(report["recomputed_bytes"], 0)

    def test_a_parameter_that_is_written_unseen_before_backward_stops_the_step(self) -> None:
        net = seeded(gpt)
        session = self.open(net, "1GiB", policy="recompute_all", nvme=None)
        for step in range(STEPS):
            with session:
                loss = loss_of_rows(net, step)
            is_last = step == STEPS - 1
            if is_last:
                net[4][1].up.weight.data.mul_(2)
            with self.assertRaisesRegex(RuntimeError, "is not what it was") if is_last else contextlib.nullcontext():
                loss.backward()
            net.zero_grad()


if __name__ == "__main__":
    unittest.main()
