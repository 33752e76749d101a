#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Checks every include of the tree against tools/layers.txt."""

import pathlib
import re
import sys

import sources

_INCLUDE = re.compile(r'^\s*#\s*include\s*(?P<name>["<][^">]+[">])', re.MULTILINE)
_TORCH = re.compile(r"^(ATen|c10|torch|caffe2)/")
_FREE = ("tests", "bench")


class Rules:
    """The two tables of layers.txt."""

    def __init__(self, text: str) -> None:
        self.allowed: dict[str, set[str]] = {}
        self.forbidden: dict[str, set[str]] = {}
        for line in text.splitlines():
            line = line.split("#", 1)[0].strip()
            if line:
                folder, _, names = line.partition(":")
                table = self.forbidden if folder.startswith("!") else self.allowed
                table[folder.lstrip("!").strip()] = set(names.split())

    def circles(self) -> list[str]:
        """Pairs of folders that may include each other: then neither is above the other."""
        return [f"layers.txt: {a} and {b} may include each other"
                for a, names in self.allowed.items() for b in names
                if a < b and a in self.allowed.get(b, set())]


    def missing(self, root: pathlib.Path) -> list[str]:
        """Folders that the tree does not have, or no longer."""
        named = {*self.allowed, *self.forbidden, *(name for names in self.allowed.values() for name in names)} - {"torch"}
        return [f"layers.txt: there is no folder {name}" for name in sorted(named)
                if not name.startswith("<") and not (root / "src" / name).is_dir() and not (root / name).is_dir()]


def folder_of(path: str) -> str:
    parts = pathlib.PurePosixPath(path).parts
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


def layer_of(name: str, rules: Rules) -> str | None:
    """The folder that an include name belongs to; None for the standard library and others."""
    bare = name[1:-1]
    if bare.startswith("spillway/"):
        return "include"
    if _TORCH.match(bare):
        return "torch"
    first = bare.split("/", 1)[0]
    return first if "/" in bare and first in rules.allowed else None


def faults(path: str, text: str, rules: Rules) -> list[str]:
    folder = folder_of(path)
    if folder in _FREE:
        return []
    if folder not in rules.allowed:
        return [f"{path}: the folder {folder} is not in tools/layers.txt"]
    allowed = rules.allowed[folder] | {folder}
    found = []
    for match in _INCLUDE.finditer(text):
        name = match.group("name")
        layer = layer_of(name, rules)
        line = text.count("\n", 0, match.start("name")) + 1
        if name in rules.forbidden.get(folder, set()) and not path.endswith("_test.cc"):
            found.append(f"{path}:{line}: {folder} must not include {name}")
        elif layer is not None and layer not in allowed and name not in allowed:
            found.append(f"{path}:{line}: {folder} may not include {layer} ({name})")
    return found


def check() -> list[str]:
    rules = Rules((sources.ROOT / "tools/layers.txt").read_text())
    found = rules.circles() + rules.missing(sources.ROOT)
    for path in sources.cpp_files():
        found += faults(path, (sources.ROOT / path).read_text(errors="replace"), rules)
    return found


if __name__ == "__main__":
    FOUND = check()
    print("\n".join(FOUND) if FOUND else "layers: no fault")
    sys.exit(1 if FOUND else 0)
