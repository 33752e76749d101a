#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Lock contracts (src/base/mutex.h), checked by Clang: what a mutex guards is used with it held. Of the
torch-free folders; what has no annotated mutex is not compiled. A std::mutex there is a fault too:
nothing would be checked."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import sources

CLANG = "clang++-14"
HEADER = "base/mutex.h"
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wno-pragma-once-outside-header", "-Wthread-safety", "-Werror=thread-safety"]
# They see torch or CUDA, which Clang is not given here.
OTHER = ("torch_driver", "train", "cuda_device")

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_STD = re.compile(r"\bstd::(mutex|lock_guard|unique_lock|scoped_lock|condition_variable)\b")
# A turn is taken for longer than a function and by one thread several times, which cannot be annotated.
_NOT_CHECKED = re.compile(r"\bstd::unique_lock<std::recursive_timed_mutex>")


def checked_files(root: pathlib.Path) -> list[str]:
    """Headers and sources of the folders that are checked, tests apart."""
    return [path for path in sources.cpp_files(root)
            if path.startswith("src/") and path.split("/")[1] not in OTHER
            and path.endswith((".h", ".cc")) and not path.endswith("_test.cc")]


def units(root: pathlib.Path) -> list[str]:
    """What is compiled: the sources that include the header, or whose own header does; and headers
    that do and have no source."""
    files = set(checked_files(root))
    direct = {path for path in files if HEADER in _INCLUDE.findall((root / path).read_text())}
    return sorted({path[:-2] + ".cc" if path.endswith(".h") and path[:-2] + ".cc" in files else path
                   for path in direct})


def own_faults(path: str, text: str) -> list[str]:
    if path == f"src/{HEADER}":
        return []
    code = _NOT_CHECKED.sub("", sources.code_only(text))
    return [f"{path}:{code.count(chr(10), 0, match.start()) + 1}: `{match.group(0)}` is not checked; use {HEADER}"
            for match in _STD.finditer(code)]


def compile_faults(root: pathlib.Path, path: str) -> list[str]:
    command = [CLANG, *FLAGS, "-Isrc", "-Iinclude", "-xc++", path]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    return [line for line in done.stderr.splitlines() if "error:" in line or "fatal" in line] or [done.stderr]


def check(root: pathlib.Path = sources.ROOT) -> list[str]:
    found = [fault for path in checked_files(root) for fault in own_faults(path, (root / path).read_text())]
    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for faults in pool.map(lambda path: compile_faults(root, path), units(root)):
                found += faults
    except FileNotFoundError:
        found.append(f"{CLANG} is missing; `make setup` installs it")
    return found


if __name__ == "__main__":
    FOUND = check()
    print("\n".join(FOUND) if FOUND else "locks: no fault")
    sys.exit(1 if FOUND else 0)
