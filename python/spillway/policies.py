# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The policies that a session can follow."""

from typing import NamedTuple

import torch


class Policy(NamedTuple):
    """name: as `spillway.session(policy=...)` takes it. what: it does, in a clause. paper: its authors, place and DOI, or "".
    lossy: it has to be allowed with `lossy=True`. moves: False where nothing ever leaves the device."""

    name: str
    what: str
    paper: str
    lossy: bool
    moves: bool


def policies() -> list[Policy]:
    """All of them; the first is the default."""
    return [Policy(*entry) for entry in torch.ops.spillway.policies()]
