# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What Spillway raises. Inside an operator or a backward, torch's own types keep being raised."""

import torch


class Error(Exception):
    """Anything that Spillway refuses."""


class OptionError(Error, ValueError):
    """An option that cannot be; `option` is its name."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"{option}: {why}")
        self.option = option
        self._why = why

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.option, self._why)  # of a worker process, say


class BudgetError(OptionError, torch.OutOfMemoryError):
    """A budget that cannot be met, or that the machine does not have."""


class StateError(Error, RuntimeError):
    """A session that is entered twice, closed, or used in a fork, or left on another thread."""


class LibraryError(Error, ImportError):
    """The package has no library, or one that does not load."""


class TorchVersionError(LibraryError):
    """This build is for another torch than the one that is installed."""


class SpillwayWarning(UserWarning):
    """What a session cannot see or do, said once."""
