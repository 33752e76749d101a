# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m spillway` runs the program `spillway`. spillway_program runs this file alone: it imports neither its package nor torch."""

import importlib.util
import os
import pathlib
import sys
from typing import NoReturn


def _environment() -> dict[str, str]:
    """With the folders of torch's libraries, which need not be beside this package."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        print("spillway: there is no torch in this environment; install the one that this package was built for", file=sys.stderr)
        sys.exit(2)
    root = pathlib.Path(torch.origin).parent
    folders = [root / "lib", *sorted((root.parent / "nvidia").glob("*/lib"))]
    before = [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
    return os.environ | {"LD_LIBRARY_PATH": os.pathsep.join([*before, *map(str, folders)])}


def main() -> NoReturn:
    program = pathlib.Path(__file__).absolute().parent / "bin" / "spillway"
    if not program.exists():
        print("spillway: this package was built without the program; on Debian: apt-get install libcli11-dev, "
              "then install the package again", file=sys.stderr)
        sys.exit(2)
    try:
        os.execve(program, ["spillway", *sys.argv[1:]], _environment())
    except OSError as error:
        print(f"spillway: the program is not where the package was put together: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
