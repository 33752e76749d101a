# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The systems that programs run under beside plain autograd: Spillway's sessions, and two that are broken on
purpose, so that a test can see that the programs notice."""

import contextlib
import dataclasses
import gc
import itertools
import random
import time
import weakref
from collections.abc import Iterator
from typing import Any

import spillway
import torch
from torch import Tensor

NVME_BUDGET = "12MiB"
CODED_SHARE = 1 / 3


@dataclasses.dataclass
class Budget:
    """Of one or two sessions that are open at a time; `host` as in `host_budget`, empty: none. `coded`: the policy under
    which each encodes what leaves, exactly; empty: that session encodes nothing. `squeezed`: what can leave has left when
    a session is left, as programs alone seldom ask for so much room."""

    device: list[str]
    host: str = ""
    coded: list[str] = dataclasses.field(default_factory=list)
    squeezed: bool = False
    dropped: bool = False  # after each program, without a close; the next one has new ones
    # "auto": of cheap operators; "blocks": whole blocks, with the leaves as the model's buffers, since these are made use
    # of as they lie. Half as much again is filled then, as far below a budget no recipe is made.
    recompute: str = "off"

    @staticmethod
    def random(seed: int, coded_share: float = CODED_SHARE) -> "Budget":
        rng = random.Random(seed)
        sizes = ["1536KiB", "2MiB", "2MiB", "2560KiB", "3MiB", "4MiB"]
        device = [rng.choice(sizes) for _ in range(2 if rng.random() < 0.25 else 1)]
        host = rng.choice(["", "", "", "512KiB", "8MiB"])
        recompute = rng.choice(["auto", "blocks", "off"])
        if rng.random() >= coded_share:
            squeezed, dropped = recompute != "off" or rng.random() < 0.4, rng.random() < 0.1
            return Budget(device, host, squeezed=squeezed, dropped=dropped, recompute=recompute)
        recompute = "off" if recompute == "off" else "auto"  # those policies make no blocks again
        coded = [rng.choice(["online", "online", "qpo"]) for _ in device]
        if device[1:] and rng.random() < 0.5:
            coded[rng.randint(0, 1)] = ""
        return Budget(device, host, coded, squeezed=rng.random() < 0.8, recompute=recompute)


class ModelOfLeaves(torch.nn.Module):
    """Has a program's leaves as its buffers, as long as the program has them."""

    def __init__(self) -> None:
        super().__init__()
        self._leaves: list[weakref.ref[Tensor]] = []

    def give(self, leaf: Tensor) -> None:
        self._leaves = [*(ref for ref in self._leaves if ref() is not None), weakref.ref(leaf)]

    def named_buffers(self, *how: Any, **named: Any) -> Iterator[tuple[str, Tensor]]:
        living = ((number, ref()) for number, ref in enumerate(self._leaves))
        yield from ((f"leaf.{number}", leaf) for number, leaf in living if leaf is not None)


class Sessions:
    """`enter(1)` is the second session where there is one, else the first."""

    policy = "online"

    def __init__(self, budget: Budget, folder: str) -> None:
        self._budget, self._folder = budget, folder
        self._sessions: list[spillway.Session] = []
        self._entered: list[spillway.Session] = []
        self._fills: list[Tensor] = []
        self._squeezes = budget.squeezed
        self._model = ModelOfLeaves()
        self._earlier = {"stored_bytes": 0, "loaded_bytes": 0, "recomputed_values": 0}
        self._open()

    def _open(self) -> None:
        budget, folder = self._budget, self._folder
        host = {"host_budget": budget.host} if budget.host else {}
        for size, coded in itertools.zip_longest(budget.device, budget.coded, fillvalue=""):
            filled = _in_bytes(size) // 2 if budget.recompute != "off" else 0
            blocks = budget.recompute == "blocks" and self.policy == "online"
            codec = {"codec": "all=lossless,mask=mask"} if coded else {}
            self._sessions.append(spillway.session(
                self._model, device_budget=_in_bytes(size) + filled, nvme=folder, nvme_budget=NVME_BUDGET,
                policy=coded or ("delta" if blocks else self.policy),
                recompute="off" if budget.recompute == "off" else "on", **host, **codec))
            with self._sessions[-1]:
                self._fills.append(torch.empty(filled, dtype=torch.uint8))
        self._staging_bytes = self.total("device_bytes")  # and what is filled; counted as long as they are open

    def given(self, leaf: Tensor) -> None:
        if self._budget.recompute == "blocks":
            self._model.give(leaf)

    def between_programs(self) -> None:
        """What nobody can reach caps nothing, whatever went wrong in it."""
        if self._budget.dropped:
            for field in self._earlier:
                self._earlier[field] = self.total(field)
            self._sessions.clear()
            self._fills.clear()
            gc.collect()
            torch.empty(16 << 20, dtype=torch.uint8)  # more than they had
            self._open()

    def enter(self, which: int) -> None:
        session = self._sessions[which % len(self._sessions)]
        if session not in self._entered:
            session.start()
        self._entered.append(session)

    def leave(self, which: int) -> None:
        session = self._entered[-1]
        if self._squeezes:
            _squeeze(session)
        self._entered.pop()
        if session not in self._entered:
            session.stop()

    def total(self, field: str) -> int:
        return self._earlier.get(field, 0) + sum(session.report()[field] for session in self._sessions)

    def device_bytes(self) -> int:
        """In use by programs. A session sees when it is entered what its model has no more."""
        for session in self._sessions if self._budget.recompute == "blocks" else []:
            session.start()
            session.stop()
        return self.total("device_bytes") - self._staging_bytes

    def coded_values(self) -> int:
        """How many values left encoded so far."""
        return sum(row["values"] for session in self._sessions for row in session.report()["codecs"])

    def close(self) -> None:
        self._fills.clear()
        while self._sessions:
            self._sessions.pop().close()

    def settle(self, to: int, patiently: bool = False) -> int:
        """Device bytes in use; where they are more than `to`, after the copies in flight had 1.6 s to end, or 160."""
        for waited in range(400 if patiently else 40):
            now = self.device_bytes()
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
        before = self._left_bytes()
        last.start()
        try:
            value = torch.arange(130.0 * 128, requires_grad=True)  # of which no codec makes much less
            for _ in range(100):
                value = value.sin()
        except torch.OutOfMemoryError as full:
            return f"the room for graphs that are gone is not free: {full}"
        finally:
            last.stop()
        return "" if self._left_bytes() > before else "nothing left the device any more"

    def _left_bytes(self) -> int:
        return self._sessions[-1].report()["freed_bytes"]


def _in_bytes(size: str) -> int:
    return int(size[:-3]) << {"KiB": 10, "MiB": 20}[size[-3:]]


def _squeeze(session: spillway.Session) -> None:
    """Asks for as much room as there can be, for a moment."""
    limit = session.report()["device_limit_bytes"]
    for part in range(15, 0, -1):
        with contextlib.suppress(torch.OutOfMemoryError):
            torch.empty(limit * part // 16, dtype=torch.uint8)
            return


class Still(Sessions):
    """A session that moves nothing: what a program leaves there is torch's, or of holding alone."""

    policy = "keep_all"


class Perturbs:
    """Gives back large saved tensors with one number changed."""

    def __init__(self) -> None:
        self._hooks: list[Any] = []

    def given(self, leaf: Tensor) -> None:
        pass

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
