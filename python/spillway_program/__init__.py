# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The program `spillway`, started beside its package: to import that would load torch, which takes seconds."""

import importlib.util
import pathlib
import runpy
import sys


def main() -> None:
    package = importlib.util.find_spec("spillway")
    if package is None or package.origin is None:
        print("spillway: the package is not where this program was installed; install it again", file=sys.stderr)
        sys.exit(2)
    runpy.run_path(str(pathlib.Path(package.origin).with_name("__main__.py")), run_name="__main__")
