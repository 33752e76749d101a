# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A bench of bench/ with --quick, for the tests of what it tells."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"


def run(name: str, *words: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """What became of it, and its line of JSON."""
    command = [sys.executable, str(BENCH / name), "--quick", "--build", os.environ["SPILLWAY_BINARY_DIR"], *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=os.environ | {"SPILLWAY_PYTHON": sys.executable})
    lines = done.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise AssertionError(f"no JSON line; exit code {done.returncode}: {done.stderr[-2000:]}")
    return done, json.loads(lines[-1])
