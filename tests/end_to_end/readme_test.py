# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""README and docs against the tree: flags, folders, files, benches and names that they mention exist.

That README's commands run is tools/check_readme.py's job; this needs no build.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text()
PAGES = {page.relative_to(ROOT): page.read_text()
         for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))}


def in_backticks(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def block(text: str, kind: str) -> str:
    return "\n".join(re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


class Readme(unittest.TestCase):
    def test_it_is_short(self) -> None:
        self.assertLessEqual(len(README.splitlines()), 150)

    def test_flags_are_known_to_the_program(self) -> None:
        sources = "\n".join(file.read_text() for file in (*(ROOT / "cli").glob("*.cc"), ROOT / "src/base/option_table.cc"))
        known = set(re.findall(r'"(--[a-z0-9-]+)"', sources))
        known |= {"--help", "--install", "--prefix", "--build"}  # the last three are cmake's
        for bench in (ROOT / "bench").glob("*.py"):
            known |= set(re.findall(r'add_argument\("(--[a-z0-9-]+)"', bench.read_text()))
        for page, text in PAGES.items():
            mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", "\n".join(in_backticks(text))))
            mentioned |= set(re.findall(r"--[a-z][a-z0-9-]+", block(text, "sh")))
            self.assertEqual(mentioned - known, set(), page)

    def test_make_targets_exist(self) -> None:
        phony = re.findall(r"^\.PHONY:(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
        benches = re.findall(r"^benches :=(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
        known = {name for line in phony + benches for name in line.split()}
        for page, text in PAGES.items():
            mentioned = re.findall(r"\bmake ([a-z][a-z-]*)", "\n".join([*in_backticks(text), block(text, "sh")]))
            self.assertEqual(set(mentioned) - known, set(), page)

    def test_every_bench_has_its_line_and_program(self) -> None:
        page = (ROOT / "docs/benchmarks.md").read_text()
        shown = set(re.findall(r"^\| `make bench-([a-z]+)`", page, re.MULTILINE))
        self.assertLessEqual(set(re.findall(r"`make bench-([a-z]+)`", README)), shown)
        self.assertEqual(shown, {"step", "nvme", "codec", "hook", "ledger", "leak", "late", "peers", "qpo", "lossy",
                                 "gradients", "compare", "foretell", "tba", "figures", "plan", "record", "states"})
        for name in shown:
            self.assertTrue((ROOT / f"bench/{name}.py").is_file(), name)

    def test_the_table_of_parts_has_every_folder(self) -> None:
        table = (ROOT / "docs/overview.md").read_text().partition("| folder of `src/` | job |")[2].partition("\n\n")[0]
        named = {folder for row in table.splitlines() for folder in re.findall(r"`([a-z_]+)`", row.split("|")[1] if "|" in row else "")}
        self.assertEqual(named, {folder.name for folder in (ROOT / "src").iterdir() if folder.is_dir()})

    def test_files_named_in_pages_exist(self) -> None:
        for page, text in PAGES.items():
            for name in in_backticks(text):
                if re.fullmatch(r"[a-z_0-9/]+\.(cc|h|txt|py|md)", name):
                    places = [ROOT / name, ROOT / "src" / name, ROOT / "src" / "executor" / name]
                    self.assertTrue(any(place.exists() for place in places), f"{page}: {name}")

    def test_example_uses_names_of_the_public_header(self) -> None:
        header = "".join((ROOT / "include/spillway" / name).read_text() for name in ("session.h", "report.h", "planning.h"))
        example = "".join(re.findall(r"(?s)```cpp\n(.*?)```", (ROOT / "docs/cpp.md").read_text()))
        self.assertIn("plan_of_files", example)
        names = re.findall(r"spillway::(\w+)|session->(\w+)|\.(\w+) =|Phase::(\w+)", example)
        self.assertGreaterEqual(len(names), 6)
        for name in {part for found in names for part in found if part}:
            self.assertRegex(header, rf"\b{name}\b")


if __name__ == "__main__":
    unittest.main()
