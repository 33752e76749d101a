# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Spillway's exceptions. Inside an operator or a backward, torch's own types are raised."""

from typing import Any

import torch


class Error(Exception):
    """Base class of everything that Spillway raises."""


class OptionError(Error, ValueError):
    """An invalid option: `option` is its name, `code` the reason, such as "below_least"; `number` is the value that was
    compared with `bound`, or both are None."""

    def __init__(self, option: str, why: str, code: str = "invalid", number: int | None = None, bound: int | None = None) -> None:
        super().__init__(f"{option}: {why}")
        self.option = option
        self.code = code
        self.number = number
        self.bound = bound
        self._why = why

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.option, self._why, self.code, self.number, self.bound)  # pickled by a worker process, for example


class BudgetError(OptionError, torch.OutOfMemoryError):
    """A budget that cannot be met, or that exceeds the machine."""


class StateError(Error, RuntimeError):
    """A session that is entered twice, closed, used in a forked process, or left on another thread."""


class LibraryError(Error, ImportError):
    """The package has no library, or its library does not load."""


class TorchVersionError(LibraryError):
    """This build is for another torch version than the installed one."""


class SpillwayWarning(UserWarning):
    """Reports what a session cannot see or do, once per session."""
