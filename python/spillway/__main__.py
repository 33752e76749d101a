# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m spillway` runs the program `spillway`."""

import os
import pathlib
import sys
from typing import NoReturn

import torch

from ._library import FOLDER


def _environment() -> dict[str, str]:
    """With the folders of torch's libraries, which need not be beside this package."""
    root = pathlib.Path(torch.__file__).parent
    folders = [root / "lib", *sorted((root.parent / "nvidia").glob("*/lib"))]
    before = [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
    return os.environ | {"LD_LIBRARY_PATH": os.pathsep.join([*before, *map(str, folders)])}


def main() -> NoReturn:
    program = FOLDER / "bin" / "spillway"
    try:
        os.execve(program, ["spillway", *sys.argv[1:]], _environment())
    except OSError as error:
        print(f"spillway: the program is not where the package was put together: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
