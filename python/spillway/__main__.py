# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m spillway` is the program `spillway`."""

import os
import sys
from typing import NoReturn

from ._library import FOLDER


def main() -> NoReturn:
    program = FOLDER / "bin" / "spillway"
    try:
        os.execv(program, ["spillway", *sys.argv[1:]])
    except OSError as error:
        print(f"spillway: the program is not where the package was put together: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
