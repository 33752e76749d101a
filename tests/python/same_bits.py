# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of whole trainings share: the same training plain and under a budget, bit by bit."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import tempfile
import unittest
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import spillway
import torch

BUILD = pathlib.Path(os.environ["SPILLWAY_BINARY_DIR"])
torch.set_num_threads(1)

Loss = Callable[[Any, int], torch.Tensor]
Backward = Callable[[torch.Tensor], None]


def bits(tensors: Iterable[torch.Tensor]) -> list[str]:
    """A digest of each tensor's bytes: a difference is to be printed in a line."""
    whole = (tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy() for tensor in tensors)
    return [hashlib.sha256(each).hexdigest()[:16] for each in whole]


def seeded(make: Callable[[], Any], seed: int = 1) -> Any:
    """What `make` makes, with the same random numbers each time."""
    torch.manual_seed(seed)
    return make()


def noise(*shape: int, step: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(step))


def tokens(vocabulary: int, *shape: int, step: int = 0) -> torch.Tensor:
    return torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(step))


def gradients(model: torch.nn.Module) -> list[str]:
    """Of each parameter, by name; that there is none counts, too."""
    return [f"{name} {'none' if parameter.grad is None else bits([parameter.grad])[0]}"
            for name, parameter in sorted(model.named_parameters())]


@contextlib.contextmanager
def standard_error() -> Iterator[list[str]]:
    """The lines that this process, torch's C++ included, writes there."""
    said: list[str] = []
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            said += file.read().decode().splitlines()


class Case(unittest.TestCase):
    """Opens sessions over a folder of its own, and leaves none behind."""

    def setUp(self) -> None:
        scratch = BUILD / "scratch"
        scratch.mkdir(exist_ok=True)
        self.folder = tempfile.mkdtemp(dir=scratch)
        self.addCleanup(shutil.rmtree, self.folder)
        self.sessions: list[spillway.Session] = []

    def tearDown(self) -> None:
        """A session that a failing case leaves open would cap the next one."""
        for session in self.sessions:
            with contextlib.suppress(spillway.StateError):
                session.close()

    def open(self, model: torch.nn.Module, budget: int | str, **options: Any) -> spillway.Session:
        options.setdefault("nvme", self.folder)
        session = spillway.session(model, device_budget=budget, **options)
        self.sessions.append(session)
        return session

    def check_moved(self, report: spillway.Report) -> None:
        """More than a megabyte left, and the budget held."""
        self.assertGreater(report["stored_bytes"], 1 << 20)
        self.assertLessEqual(report["device_peak_bytes"], report["device_limit_bytes"])

    def check_callback(self, fit: Callable[..., Any], callback: Any) -> spillway.Report:
        """`fit` trains with the callbacks that it is given: to the same bits with this one as without."""
        plain = fit()
        self.assertEqual(fit(callback), plain)
        self.assertIsNone(callback.session, "closed at the end")
        report = callback.report()
        self.check_moved(report)
        return report

    @staticmethod
    def train(model, loss_of: Loss, around: Callable[[], Any] = contextlib.nullcontext, *, steps: int = 2,
              inside: bool = False, backward: Backward = torch.Tensor.backward) -> list[str]:
        """Losses and all gradients of each step; the parameters after the last. `inside`: backward runs there,
        too, so that what it saves itself may leave."""
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        seen = []
        for step in range(steps):
            torch.manual_seed(step)  # dropout
            with around():
                loss = loss_of(model, step)
                if inside:
                    backward(loss)
            if not inside:
                backward(loss)
            seen += bits([loss]) + gradients(model)
            del loss
            optimizer.step()
            optimizer.zero_grad()
        return seen + bits(model.parameters())

    def check(self, make: Callable[[], Any], loss_of: Loss, *, share: float = 0.3,
              **training: Any) -> spillway.Report:
        """Plain, with room for all, and under a budget that does not hold what is saved: the same bits.
        The report of the last one. `share`: of what one step saves, how much finds no room."""
        plain = self.train(seeded(make), loss_of, **training)
        model = seeded(make)
        roomy = self.open(model, "2GiB")
        self.assertEqual(self.train(model, loss_of, lambda: roomy, **training), plain, "with room for all")
        report = roomy.report()
        self.assertEqual(report["stored_bytes"], 0)
        roomy.close()
        steps = training.get("steps", 2)
        budget = report["device_peak_bytes"] - int(share * report["saved_bytes"] / steps)
        model = seeded(make)
        session = self.open(model, budget)
        self.assertEqual(self.train(model, loss_of, lambda: session, **training), plain, "under the budget")
        report = session.report()
        session.close()
        self.assertGreater(report["freed_bytes"], 0)
        self.assertGreater(report["loaded_bytes"] + report["recomputed_bytes"], 0)
        self.assertLessEqual(report["device_peak_bytes"], budget)
        self.assertLessEqual(report["device_needed_bytes"], budget, "it went through")
        return report
