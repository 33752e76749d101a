# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Shared by the callbacks: one session for the length of a training."""

import contextlib
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from . import _options
from ._options import Options
from .report import Report
from .session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Training:
    """Opens a session when training begins and closes it when training ends, also by an exception."""

    def __init__(self, **options: "Unpack[Options]") -> None:
        super().__init__()
        _options.refuse_unknown(type(self).__name__, options, _SIGNATURE.parameters)
        arguments = _SIGNATURE.bind(self, **options)
        arguments.apply_defaults()
        _options.read(arguments.arguments)  # refuses wrong types now, not when training begins
        self._options = options
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
            try:
                session.close()
            finally:  # a warning may be an error
                self._report = session.report()


def _signature() -> inspect.Signature:
    """As of a session, which gets its model and optimizers when training begins."""
    session = inspect.signature(Session.__init__)
    return session.replace(parameters=[argument for name, argument in session.parameters.items()
                                       if name not in ("model", "optimizer")])


_SIGNATURE = _signature()
setattr(Training.__init__, "__signature__", _SIGNATURE)  # for help(), notebooks and inspect
