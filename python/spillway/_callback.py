# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Shared by the callbacks: one session for the length of a training."""

import contextlib
import os
from collections.abc import Iterable
from typing import Any

import torch

from .report import Report
from .session import Session


class Training:
    """Opens a session when training begins and closes it when training ends, also by an exception."""

    def __init__(
        self,
        *,
        device_budget: int | str,
        host_budget: int | str | None = None,
        nvme: str | os.PathLike[str] | None = None,
        nvme_budget: int | str | None = None,
        policy: str = "online",
        lossy: bool = False,
        codec: str | None = None,
        nonfinite: str = "keep",
        min_tensor_bytes: int | str | None = None,
    ) -> None:
        super().__init__()
        self._options: dict[str, Any] = {
            "device_budget": device_budget,
            "host_budget": host_budget,
            "nvme": nvme,
            "nvme_budget": nvme_budget,
            "policy": policy,
            "lossy": lossy,
            "codec": codec,
            "nonfinite": nonfinite,
            "min_tensor_bytes": min_tensor_bytes,
        }
        self._session: Session | None = None
        self._report: Report | None = None
        self._at_end = contextlib.ExitStack()

    @property
    def session(self) -> Session | None:
        """The session of the training that runs now; None between trainings."""
        return self._session

    def report(self) -> Report | None:
        """The report of the session; after the training, its final report."""
        return self._report if self._session is None else self._session.report()

    def _open(self, model: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer]) -> Session:
        self._close()  # of a training that an exception ended
        self._session = Session(model, optimizer=optimizers, **self._options)
        return self._session

    def _close(self) -> None:
        self._at_end.close()
        session, self._session = self._session, None
        if session is not None:
            self._report = session.report()
            session.close()
