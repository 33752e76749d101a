# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/ that a bench makes of its committed results: between two comments of a page, one that names the bench and an end.

A test compares what a page holds with what the bench prints with `--table`; `--page` puts it there.
"""

import pathlib

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
END = "<!-- end of table -->"


def begin_of(bench: str) -> str:
    return f"<!-- table: bench/{bench}.py -->"


def split(page: pathlib.Path, bench: str) -> tuple[str, str, str]:
    """What comes before the table, the table, and what comes after it. Fails with ValueError where the page has none."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(begin_of(bench) + "\n\n")
    held, end, after = rest.partition("\n\n" + END + "\n")
    if not begin or not end:
        raise ValueError(f"{page.name} has no table between '{begin_of(bench)}' and '{END}', with empty lines around it")
    return before + begin, held, end + after


def held(page: pathlib.Path, bench: str) -> str:
    """The table as the page has it."""
    return split(page, bench)[1]


def put(page: pathlib.Path, bench: str, table: str) -> None:
    before, _, after = split(page, bench)
    page.write_text(before + table + after, encoding="utf-8")
