#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what g++ needs to build a program against build/lib/libspillway.so and its torch."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> int:
    library = ROOT / "build" / "lib"
    python = library.resolve().parent / "python.path"
    if not python.exists():
        print("cpp_flags.py: build/lib is not there; `make build` makes it", file=sys.stderr)
        return 2
    found = subprocess.run([python.read_text().strip(), "-I", str(ROOT / "tools" / "find_torch.py")],
                           capture_output=True, text=True, check=False).stdout.strip()
    if not found:
        print("cpp_flags.py: the torch that build/lib was built against is gone; `make build` finds one",
              file=sys.stderr)
        return 2
    torch = pathlib.Path(found.split(";")[1])
    print(f"-I{ROOT}/include -I{ROOT}/src -isystem {torch}/include -isystem {torch}/include/torch/csrc/api/include "
          f"-L{library} -lspillway -L{torch}/lib -ltorch -ltorch_cpu -lc10 -lfmt "
          f"-Wl,-rpath,{library} -Wl,-rpath,{torch}/lib")
    return 0


if __name__ == "__main__":
    sys.exit(main())
