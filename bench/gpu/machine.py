#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Prints one JSON line: the GPU (none in the rehearsal), its driver, the host, torch and the commit that numbers belong
to."""

import json
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import common  # noqa: E402

_ASKED = ("name", "driver_version", "memory.total", "pcie.link.gen.current", "pcie.link.width.current")


def gpu() -> dict[str, str] | None:
    if shutil.which("nvidia-smi") is None:
        return None
    text = subprocess.run(["nvidia-smi", "--id=0", f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader"],
                          capture_output=True, text=True, check=True).stdout
    return dict(zip((name.replace(".", "_") for name in _ASKED), (word.strip() for word in text.split(","))))


def torch(python: str) -> str:
    asked = "import torch; print(torch.__version__, torch.version.cuda)"
    return subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    print(json.dumps({"kind": "machine", "gpu": gpu(), "torch": torch(sys.argv[1]), **common.machine(),
                      "error": None}))
