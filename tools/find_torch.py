# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Prints "version;folder" of the torch that this Python would import, without importing it."""

import importlib.util
import pathlib
import re
import sys


def main() -> int:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return 1
    root = pathlib.Path(spec.origin).resolve().parent
    found = re.search(r"__version__ = '([0-9]+\.[0-9]+\.[0-9]+)", (root / "version.py").read_text())
    if found is None or not (root / "lib" / "libtorch_cpu.so").exists():
        return 1
    print(f"{found.group(1)};{root}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
