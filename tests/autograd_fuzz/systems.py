# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The systems that programs run under beside plain autograd: Spillway's sessions, and two that are broken on
purpose, so that a test can see that the programs notice."""

import dataclasses
import random
import time
from typing import Any

import spillway
import torch
from torch import Tensor

NVME_BUDGET = "12MiB"


@dataclasses.dataclass
class Budget:
    """Of one or two sessions that are open at a time; `host` as in `host_budget`, empty: none."""

    device: list[str]
    host: str = ""

    @staticmethod
    def random(seed: int) -> "Budget":
        rng = random.Random(seed)
        sizes = ["1536KiB", "2MiB", "2MiB", "2560KiB", "3MiB", "4MiB"]
        return Budget([rng.choice(sizes) for _ in range(2 if rng.random() < 0.25 else 1)],
                      rng.choice(["", "", "", "512KiB", "8MiB"]))


class Sessions:
    """`enter(1)` is the second session where there is one, else the first."""

    policy = "online"

    def __init__(self, budget: Budget, folder: str) -> None:
        model = torch.nn.Module()
        host = {"host_budget": budget.host} if budget.host else {}
        self._sessions: list[spillway.Session] = []
        for device in budget.device:
            self._sessions.append(spillway.session(
                model, device_budget=device, nvme=folder, nvme_budget=NVME_BUDGET, policy=self.policy, **host))
        self._entered: list[spillway.Session] = []

    def enter(self, which: int) -> None:
        session = self._sessions[which % len(self._sessions)]
        if session not in self._entered:
            session.start()
        self._entered.append(session)

    def leave(self, which: int) -> None:
        session = self._entered.pop()
        if session not in self._entered:
            session.stop()

    def total(self, field: str) -> int:
        return sum(session.report()[field] for session in self._sessions)

    def close(self) -> None:
        while self._sessions:
            self._sessions.pop().close()

    def settle(self, to: int) -> int:
        """Device bytes in use; where they are more than `to`, after the copies in flight had time to end."""
        for waited in range(100):
            now = self.total("device_bytes")
            if now <= to:
                break
            for session in self._sessions:  # a save takes what has ended
                session.start()
                torch.zeros(130 * 128, requires_grad=True).sin()
                session.stop()
            time.sleep(0.002 * waited)
        return now

    def leaks(self) -> str:
        """Every graph is gone: room on the NVMe drive for its whole budget again, or in words why not."""
        last = self._sessions[-1]
        before = last.report()["stored_bytes"]
        last.start()
        try:
            value = torch.zeros(130 * 128, requires_grad=True)
            for _ in range(100):
                value = value.sin()
        except torch.OutOfMemoryError as full:
            return f"the room for graphs that are gone is not free: {full}"
        finally:
            last.stop()
        return "" if last.report()["stored_bytes"] > before else "nothing was stored any more"


class Still(Sessions):
    """A session that moves nothing: what a program leaves there is torch's, or of holding alone."""

    policy = "keep_all"


class Perturbs:
    """Gives back large saved tensors with one number changed."""

    def __init__(self) -> None:
        self._hooks: list[Any] = []

    def enter(self, which: int) -> None:
        self._hooks.append(torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, self._unpack))
        self._hooks[-1].__enter__()

    def leave(self, which: int) -> None:
        self._hooks.pop().__exit__(None, None, None)

    def _unpack(self, saved: Tensor) -> Tensor:
        if saved.numel() < 1 << 14 or saved.dtype != torch.float32:
            return saved
        changed = saved.detach().clone()
        changed.view(-1)[7:8].add_(1) if changed.is_contiguous() else changed[0].add_(1)
        return changed


class IgnoresWrites(Perturbs):
    """Gives back what is in the saved tensor now, whoever wrote to it since."""

    def _unpack(self, saved: Tensor) -> Tensor:
        return saved
