# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Prints "version;folder" of the torch that this Python would import, without importing it. A pre-release is none:
two of them can have one number and differ.

With --cuda: "runtime library;include folder;..." of the CUDA that this torch was built for, or,
with exit status 1, why there is none to build against."""

import importlib.util
import pathlib
import re
import sys


TOOLKIT = pathlib.Path("/usr/local/cuda/include")


def torch_root() -> pathlib.Path | None:
    spec = importlib.util.find_spec("torch")
    return None if spec is None or spec.origin is None else pathlib.Path(spec.origin).resolve().parent


def torch_line(root: pathlib.Path | None) -> str | None:
    if root is None:
        return None
    found = re.search(r"__version__ = '([0-9]+\.[0-9]+\.[0-9]+)([^+']*)", (root / "version.py").read_text())
    if found is not None and found.group(2):
        print(f"torch {found.group(1)}{found.group(2)} is a pre-release, and a release is needed", file=sys.stderr)
        return None
    if found is None or not (root / "lib" / "libtorch_cpu.so").exists():
        return None
    return f"{found.group(1)};{root}"


def cuda_parts(root: pathlib.Path) -> tuple[list[pathlib.Path], str]:
    """(runtime library and include folders, ""), or ([], why not). Wheels for CUDA 13 keep all in
    nvidia/cu13; older ones have a folder a part. The headers under crt/, which the others include,
    are in no wheel that torch asks for but triton's."""
    if not (root / "lib" / "libc10_cuda.so").exists():
        return [], f"the torch in {root} is a build without CUDA"
    site = root.parent
    nvidia = site / "nvidia"
    homes = [*sorted(nvidia.glob("cu[0-9]*"), reverse=True), nvidia / "cuda_runtime"]
    for home in homes:
        libraries = sorted((home / "lib").glob("libcudart.so.*"))
        if libraries and (home / "include" / "cuda_runtime_api.h").exists():
            break
    else:
        return [], f"no CUDA runtime with headers in {nvidia}"
    includes = [home / "include"]
    more = [includes[0], nvidia / "cuda_crt" / "include", site / "triton/backends/nvidia/include",
            TOOLKIT]
    crt = [folder for folder in more if (folder / "crt" / "host_defines.h").exists()]
    if not crt:
        return [], f"no header crt/host_defines.h in {site} (the package nvidia-cuda-crt has it)"
    return [libraries[-1], *dict.fromkeys([*includes, crt[0]])], ""


def main() -> int:
    root = torch_root()
    line = torch_line(root)
    if line is None or root is None:
        return 1
    if "--cuda" in sys.argv[1:]:
        parts, why = cuda_parts(root)
        print(";".join(map(str, parts)) or why)
        return 0 if parts else 1
    print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
