# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The page docs/semantics.md: from outcomes to Markdown, and from Markdown back for the check."""

import systems
from case import CRASH, HANG, IDLE, LOUD, MEMORY, NONE, OLD, PASS, WRONG, Case, Outcome

Columns = dict[str, dict[str, Outcome]]
KINDS = (PASS, LOUD, WRONG, OLD, MEMORY, CRASH, HANG, IDLE, NONE)
MARKS = {WRONG: "**wrong**", CRASH: "**crash**", HANG: "**hang**"}

HEAD = """# Semantics

This page compares systems that move or recompute what autograd saves, on the cases of `tests/semantics/`. The reference is plain
autograd: a system passes a case if every result has the same bits, errors are the same, and nothing is held once the graph is freed.
`make semantics` writes this page. A test runs the columns of plain autograd and Spillway again and fails if they differ from it.

Each system runs in a process of its own, on the CPU. Spillway also runs on `tests/late`, a simulated accelerator whose
streams run late, in a new random order for each case, with a checker of the order. So the page shows whether a
system's logic is right. It does not show its speed, how much memory it saves, or how the other systems order streams. Systems that ignore
tensors on the CPU are made to take them, as the second table describes. A system that recomputes gets each
case as a function to wrap. The cases include what a checkpoint is documented not to preserve (weights that change before the
recompute, batch norm's counts).

| word | what the system did |
|---|---|
| pass | the same as plain autograd |
| loud | raises where plain autograd does not, or raises another error |
| **wrong** | silent: another result, or no error and a wrong gradient |
| old value | silent: plain autograd raises, because a saved tensor was written; the system uses the value before the write |
| memory | silent: holds a graph or its bytes after the last reference is gone, or copies parameters |
| crash, hang | the process died, or did not end within ten minutes |
| idle | right, but nothing was moved although it had to be (Spillway only) |
| n/a | the case does not apply |
"""

NOT_HERE = """
## What is not here

The sources are numbered sections of our notes on peers and issues of other projects (`project#number`). These are left
out:

- Races of streams and host buffers, `record_stream`, pinned memory, graph capture (Megatron-LM#7398,
  torchtune#1867's other half, trl#7195, DeepSpeed#8186, torchtitan#2581, diffusers#12673; 6.13, 6.20, 6.22 to
  6.28, 6.31): the CPU has one order. The tests in `tests/late` cover them for Spillway, except for graph capture, which
  needs a GPU.
- Several processes (unsloth#9995, 6.29's collectives): `tests/python/distributed_test.py` covers them for Spillway.
- Memory that is not saved, host memory and speed (section 4 from 29 on): these are measured, not judged.
- Defects of one project's own configuration (Megatron-Bridge#2684, DeepSpeed#3062, diffusers#14433).
"""


def counted(column: dict[str, Outcome]) -> dict[str, int]:
    return {kind: sum(outcome.kind == kind for outcome in column.values()) for kind in KINDS}


def failures(todo: list[Case], found: Columns) -> list[str]:
    """One line for each reason of each case, with the systems that have it."""
    lines = []
    for each in todo:
        reasons: dict[tuple[str, str], list[str]] = {}
        for name, column in found.items():
            outcome = column[each.name]
            if outcome.kind not in (PASS, NONE):
                reasons.setdefault((outcome.kind, outcome.why.lower()), []).append(name)
        lines += [f"- `{each.name}`: {', '.join(systems.ALL[name].title for name in names)}: {kind}: "
                  f"{found[names[0]][each.name].why}" for (kind, _), names in reasons.items()]
    return lines


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _systems(found: Columns, versions: dict[str, str]) -> list[str]:
    lines = ["", _row("system", "version", *KINDS[:5], "crash, hang", "idle", NONE, "how it is run"),
             "|---" * 11 + "|"]
    for name, column in found.items():
        kind, counts = systems.ALL[name], counted(column)
        lines.append(_row(kind.title, versions[name], *(counts[each] for each in KINDS[:5]),
                          counts[CRASH] + counts[HANG], counts[IDLE], counts[NONE], kind.about))
    return lines


def _reasons_not_posed(found: Columns) -> list[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, column in found.items():
        for case_name, outcome in column.items():
            if outcome.kind == NONE:
                reasons.setdefault((systems.ALL[name].title, outcome.why), []).append(case_name)
    return [f"- {title}: n/a: {why}: {', '.join(f'`{each}`' for each in names)}"
            for (title, why), names in reasons.items()]


def page(todo: list[Case], found: Columns, versions: dict[str, str]) -> str:
    lines = [HEAD, f"Made with torch {versions['plain']}: {len(todo)} cases.", *_systems(found, versions)]
    lines += ["", "## The cases", "", "The column `plain` is what plain autograd does: it computes a result (bits), raises "
              "an error, or frees everything."]
    titles = [systems.ALL[name].title for name in found]
    group = ""
    for each in todo:
        if each.group != group:
            group = each.group
            lines += ["", f"### {group}", "", _row("case", "what", "from", "plain", *titles),
                      "|---" * (4 + len(titles)) + "|"]
        cells = [MARKS.get(column[each.name].kind, column[each.name].kind) for column in found.values()]
        lines.append(_row(f"`{each.name}`", each.title, each.source, each.plain, *cells))
    lines += ["", "## Every failure", "", *failures(todo, found), "", *_reasons_not_posed(found)]
    lines += [NOT_HERE.rstrip(), ""]
    return "\n".join(lines)


def cells(text: str, title: str) -> dict[str, str]:
    """A system's column of the page, by case."""
    column, found = -1, {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.strip("|").split(" | ")]
        if line.startswith("| case |"):
            column = parts.index(title)
        elif line.startswith("| `") and column >= 0:
            found[parts[0].strip("`")] = parts[column].strip("*")
    return found


def differences(text: str, todo: list[Case], found: Columns) -> list[str]:
    """Where fresh columns are not the page's. What plain autograd cannot pose in this torch, or what is not here at
    all, differs from nothing."""
    faults = []
    for name, column in found.items():
        written = cells(text, systems.ALL[name].title)
        for each in todo:
            fresh = column[each.name]
            absent = fresh.why.startswith("not here") or found["plain"][each.name].kind == NONE
            varies = systems.ALL[name].drops_by_measured_times and {fresh.kind, written.get(each.name)} == {PASS, NONE}
            if fresh.kind != written.get(each.name) and not varies and not (fresh.kind == NONE and absent):
                faults.append(f"{each.name}: {systems.ALL[name].title}: the page says "
                              f"{written.get(each.name, 'nothing')}, a fresh run {fresh.kind}: {fresh.why}")
        gone = written.keys() - {each.name for each in todo}
        faults += [f"{each}: is on the page and not in the suite" for each in sorted(gone)]
    return faults
