# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What `pip install .` calls: scikit-build-core, against the torch of the environment that is installed into.

pip builds in an environment of its own, in which there is no torch; Python's isolated mode does not see that
one, but the environment around it. So torch is not downloaded a second time."""

import os
import pathlib
import re
import subprocess
import sys
from typing import Any, NoReturn

from scikit_build_core import build

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUPPORTED = range(11, 16)  # of torch 2

Config = dict[str, Any] | None


def stop(why: str) -> NoReturn:
    sys.stdout.flush()
    print(f"spillway: {why}", file=sys.stderr, flush=True)
    os._exit(1)  # no stack trace after the line


def check_torch() -> None:
    found = subprocess.run([sys.executable, "-I", str(ROOT / "tools" / "find_torch.py")],
                           capture_output=True, text=True, check=False)
    if found.returncode:
        stop("there is no torch in this environment; install torch 2.11 to 2.15 into it first")
    version = found.stdout.split(";")[0]
    parts = re.match(r"2\.(\d+)\.", version)
    if parts is None or int(parts.group(1)) not in SUPPORTED:
        stop(f"torch {version} is installed, and torch 2.11 to 2.15 is needed")


def check_packages() -> None:
    missing = subprocess.run(["bash", str(ROOT / "tools" / "setup.sh"), "missing", "library"],
                             capture_output=True, text=True, check=False).stdout.strip()
    if missing:
        stop(f"packages that the build needs are missing; on Debian: apt-get install {missing}")


def get_requires_for_build_wheel(config_settings: Config = None) -> list[str]:
    check_torch()
    check_packages()
    return build.get_requires_for_build_wheel(config_settings)


def build_wheel(folder: str, config_settings: Config = None, metadata: str | None = None) -> str:
    settings = dict(config_settings or {})
    settings["cmake.define.SPILLWAY_PYTHON"] = sys.executable
    return build.build_wheel(folder, settings, metadata)


prepare_metadata_for_build_wheel = build.prepare_metadata_for_build_wheel
get_requires_for_build_sdist = build.get_requires_for_build_sdist
build_sdist = build.build_sdist
