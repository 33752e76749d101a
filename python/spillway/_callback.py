# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Shared by the callbacks: one session for the length of a training."""

import contextlib
import os
from collections.abc import Iterable, Mapping
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
        nvme_allow_tmpfs: bool = False,
        nvme_rate: int | str | None = None,
        policy: str = "online",
        min_tensor_bytes: int | str | None = None,
        lossy: bool = False,
        codec: str | Mapping[str, str] | None = None,
        nonfinite: str = "keep",
        rounding_seed: int | None = None,
        record_events: str | os.PathLike[str] | None = None,
        flight_record: str | os.PathLike[str] | None = None,
        timeline: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        self._options: dict[str, Any] = {
            "device_budget": device_budget,
            "host_budget": host_budget,
            "nvme": nvme,
            "nvme_budget": nvme_budget,
            "nvme_allow_tmpfs": nvme_allow_tmpfs,
            "nvme_rate": nvme_rate,
            "policy": policy,
            "min_tensor_bytes": min_tensor_bytes,
            "lossy": lossy,
            "codec": codec,
            "nonfinite": nonfinite,
            "rounding_seed": rounding_seed,
            "record_events": record_events,
            "flight_record": flight_record,
            "timeline": timeline,
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
