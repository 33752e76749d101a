# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the runtime: a plain shared object beside this file that registers a TorchScript class."""

import pathlib

import torch

from .errors import LibraryError, TorchVersionError

FOLDER = pathlib.Path(__file__).absolute().parent


def _release(version: str) -> str:
    return version.split("+")[0]


def load() -> None:
    """Called once per process. Raises TorchVersionError before the symbols of another torch version can do harm."""
    try:
        built = (FOLDER / "lib" / "torch_version").read_text().strip()
    except FileNotFoundError:
        raise LibraryError(f"{FOLDER} has no library in it: import the package that was built or installed, "
                           "not its sources") from None
    if _release(torch.__version__) != built:
        raise TorchVersionError(
            f"this Spillway was built for torch {built}, and torch {_release(torch.__version__)} is installed; "
            "reinstall Spillway in this environment"
        )
    library = FOLDER / "lib" / "libspillway.so"
    try:
        torch.classes.load_library(str(library))
    except OSError as failure:
        raise LibraryError(f"{library} does not load beside torch {torch.__version__} ({failure}); "
                           "reinstall Spillway in this environment") from None
