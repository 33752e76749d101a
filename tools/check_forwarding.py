#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Whether our CUDA allocator hands on every virtual of torch's: check_forwarding.py INCLUDE_FOLDER

One that is not pure and not handed on would behave as torch's base class does, without a word."""

import collections
import pathlib
import re
import sys

import sources

CLASSES = {"c10/core/Allocator.h": "Allocator",
           "c10/core/CachingDeviceAllocator.h": "DeviceAllocator",
           "c10/cuda/CUDACachingAllocator.h": "CUDAAllocator"}
OURS = ("src/torch_driver/compat.h", "src/torch_driver/allocator/cuda_forwarding.h")

_VIRTUAL = re.compile(r"\bvirtual\s[^;{}()~]*?\b(\w+)\s*\(")
_HANDED_ON = re.compile(r"\bbehind_->(\w+)\(")


def class_body(text: str, name: str) -> str:
    """What stands between the braces of the class `name`; nothing where it is not defined."""
    code = sources.code_only(text)
    head = re.search(rf"\b(?:class|struct)\s+(?:\w+\s+)?{name}\b[^;{{]*{{", code)
    if head is None:
        return ""
    depth, at = 1, head.end()
    while depth and at < len(code):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        at += 1
    return code[head.end():at]


def virtuals(body: str) -> collections.Counter[str]:
    """How many virtuals of each name a class declares first; destructors aside."""
    return collections.Counter(_VIRTUAL.findall(body))


def faults(torch_files: dict[str, str], our_text: str) -> list[str]:
    """`torch_files`: the text of each header of CLASSES."""
    found = []
    handed_on = collections.Counter(_HANDED_ON.findall(sources.code_only(our_text)))
    for header, name in CLASSES.items():
        declared = virtuals(class_body(torch_files[header], name))
        if not declared:
            found.append(f"{header}: no virtual of {name} is found; has torch moved it?")
        wanted = declared if name != "CUDAAllocator" else declared + overloads(torch_files)
        found += [f"{header}: {name}::{function} is not handed on by {OURS[1]}"
                  for function, count in wanted.items() if handed_on[function] < count]
    return found


def overloads(torch_files: dict[str, str]) -> collections.Counter[str]:
    """Names that CUDAAllocator declares beside a virtual of the same name above it."""
    above: collections.Counter[str] = collections.Counter()
    for header, name in CLASSES.items():
        if name != "CUDAAllocator":
            above += virtuals(class_body(torch_files[header], name))
    own = virtuals(class_body(torch_files["c10/cuda/CUDACachingAllocator.h"], "CUDAAllocator"))
    return collections.Counter({name: above[name] for name in own if name in above})


def check(include: pathlib.Path) -> list[str]:
    if not (include / "c10/cuda/CUDACachingAllocator.h").exists():
        return [f"{include}: no c10/cuda/CUDACachingAllocator.h"]
    torch_files = {header: (include / header).read_text() for header in CLASSES}
    return faults(torch_files, "".join((sources.ROOT / path).read_text() for path in OURS))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sources.stop("usage: tools/check_forwarding.py INCLUDE_FOLDER, that of a torch")
    FOUND = check(pathlib.Path(sys.argv[1]))
    print("\n".join(FOUND) if FOUND else "forwarding: no fault")
    sys.exit(1 if FOUND else 0)
