# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the runtime: a plain shared object beside this file, which holds a class of torch's."""

import pathlib

import torch

from .errors import TorchVersionError

_FOLDER = pathlib.Path(__file__).absolute().parent


def _release(version: str) -> str:
    return version.split("+")[0]


def load() -> None:
    """Once a process. Raises TorchVersionError before another torch's symbols can do harm."""
    built = (_FOLDER / "lib" / "torch_version").read_text().strip()
    if _release(torch.__version__) != built:
        raise TorchVersionError(
            f"this Spillway was built for torch {built}, and torch {_release(torch.__version__)} is installed; "
            "build Spillway against that one"
        )
    torch.classes.load_library(str(_FOLDER / "lib" / "libspillway.so"))
