# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The policies that a session can use."""

from typing import NamedTuple

import torch


class Policy(NamedTuple):
    """One policy.

    Attributes:
        name: The value for `spillway.session(policy=...)`.
        what: What it does, in a clause.
        paper: Its authors, venue and DOI, or "".
        lossy: Whether it needs `lossy=True`.
        moves: Whether it is of use only where saved tensors can leave the device.
        plans: Whether it records a step and makes a plan of it.
        parameters: What each parameter means that may follow its name ("te:layers=8"), by name.
    """

    name: str
    what: str
    paper: str
    lossy: bool
    moves: bool
    plans: bool
    parameters: dict[str, str]


def policies() -> list[Policy]:
    """Lists all policies; the first is the default."""
    return [Policy(*entry) for entry in torch.ops.spillway.policies()]
