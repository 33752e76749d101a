#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`make gpu-table`: the JSON lines of bench/gpu/run.sh as Markdown. Free of torch and of a GPU.

Overlap efficiency = ideal step / actual step, where ideal hides every copy behind the compute of its
phase as far as the link allows:

    ideal = max(plain forward, bytes out / rate out) + max(plain backward, bytes in / rate in) + plain update

with the medians of plain training of the same model without a cap, and the one-way pinned rates of the
same file. Gradients and losses are compared with that plain run: equal to the last bit, else by the
largest relative difference of a parameter's gradient norm or of a loss, beside the same difference
between two plain runs (the noise), where there are two.
"""

import argparse
import json
import pathlib
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any

Line = dict[str, Any]

ROOT = pathlib.Path(__file__).resolve().parents[2]
GIB = 1 << 30
_SAME_WORK = ("model", "precision", "batch", "sequence", "steps", "deterministic")


def read(text: str) -> list[Line]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def work(line: Line) -> tuple:
    """What two runs must share to be compared. A failed one may not know its batch any more."""
    return tuple(line.get(name) for name in _SAME_WORK)


def median_of(lines: Sequence[Line], name: str) -> float | None:
    found = [line[name]["median"] for line in lines if line.get(name)]
    return statistics.median(found) if found else None


def ideal_seconds(line: Line, plain: Sequence[Line], ceilings: Line | None) -> float | None:
    if line.get("nvme_budget_bytes"):
        return None  # the links to the host do not bound a disk
    parts = [median_of(plain, f"{phase}_seconds") for phase in ("forward", "backward", "update")]
    if None in parts or not ceilings or ceilings.get("error") or line.get("out_bytes_a_step") is None:
        return None
    forward, backward, update = parts
    out = line["out_bytes_a_step"] / ceilings["out_pinned_bytes_per_s"]
    back = line["in_bytes_a_step"] / ceilings["in_pinned_bytes_per_s"]
    return max(forward, out) + max(backward, back) + update


def difference(one: Line, other: Line) -> float | None:
    """0 when losses and gradients are equal to the last bit, else the largest relative difference."""
    if not (one.get("gradient_norms") and other.get("gradient_norms")):
        return None
    if one["losses"] == other["losses"] and one["gradient_hash"] == other["gradient_hash"]:
        return 0.0
    pairs = [*zip(one["losses"], other["losses"]), *zip(one["gradient_norms"], other["gradient_norms"])]
    if any(a is None or b is None for a, b in pairs):
        return float("inf")
    # Bits may differ where every norm is the same number: then it is not 0, but too small to show here.
    return max(max(abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in pairs), 1e-16)


def off_by(line: Line, plain: Sequence[Line]) -> str:
    """Of what is lossy."""
    found = [d for run in plain if (d := difference(line, run)) is not None]
    return f"lossy: {min(found):.1e}" if found else "-"


def equality(line: Line, plain: Sequence[Line]) -> str:
    others = [run for run in plain if run is not line]
    found = [d for d in (difference(line, run) for run in others) if d is not None]
    if not found:
        return "-"
    if 0.0 in found:
        return "bit-equal"
    between = [d for a, b in zip(plain, plain[1:]) if (d := difference(a, b)) is not None]
    if any(run is line for run in plain):
        return f"noise {max(found):.1e}"
    if not between:
        return f"differ by {min(found):.1e}, noise not measured"
    verdict = "within noise" if min(found) <= max(between) else "BEYOND NOISE"
    return f"{verdict}: {min(found):.1e}, plain {max(between):.1e}"


def shown(value: float | None, factor: float = 1.0, digits: int = 2) -> str:
    return "-" if value is None else f"{value / factor:.{digits}f}"


def cell(text: str | None) -> str:
    """Words of another program as one cell of a table."""
    return (text or "").replace("|", "/")[:240]


def row(line: Line, plain: Sequence[Line], ceilings: Line | None) -> list[str]:
    cap = line["cap_bytes"] or line["budget_bytes"]
    mode = f"{line['mode']}, NVMe" if line.get("nvme_budget_bytes") else line["mode"]
    mode += ", expandable segments" if "expandable" in (line.get("allocator_settings") or "") else ""
    head = [mode, str(line["round"]), f"{cap / GIB:.0f} GiB" if cap else "none"]
    if line.get("error"):
        return [*head, f"failed: {cell(line['error'])}", *["-"] * 9]
    step = line["step_seconds"]
    usual, ideal = median_of(plain, "step_seconds"), ideal_seconds(line, plain, ceilings)
    moves = line.get("out_bytes_a_step", 0) > 0
    stall = (line.get("stall_store_seconds_a_step") or 0) + (line.get("stall_load_seconds_a_step") or 0)
    return [*head,
            f"{step['median']:.3f} ({step['min']:.3f} to {step['max']:.3f})",
            shown(step["median"] / usual if usual else None),
            shown(line.get("allocated_peak_bytes"), GIB), shown(line.get("reserved_peak_bytes"), GIB),
            shown(line.get("host_peak_bytes"), GIB),
            str(line.get("allocator_retries", "-")),
            f"{line['out_bytes_a_step'] / 1e9:.2f} / {line['in_bytes_a_step'] / 1e9:.2f}" if moves else "-",
            f"{stall:.3f}" if line["mode"] in ("spillway", "qpo") else "-",
            shown(ideal / step["median"] if ideal and moves else None),
            off_by(line, plain) if line["mode"] == "qpo" else equality(line, plain)]


COLUMNS = ("mode", "round", "cap", "step s (range)", "x plain", "allocated GiB", "reserved GiB", "host GiB", "retries",
           "out / in GB a step", "stall s", "overlap", "losses and gradients")


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}",
            *(f"| {' | '.join(cells)} |" for cells in rows)]


def group_of_failed(line: Line, groups: dict[tuple, list[Line]]) -> tuple:
    """A run that failed before it knew its batch belongs to the work that asks for the same."""
    for other in groups:
        if all(a is None or a == b for a, b in zip(work(line), other)):
            return other
    return work(line)


def trainings(lines: Sequence[Line], ceilings: Line | None) -> list[str]:
    runs = [line for line in lines if line.get("kind") == "training" and not line.get("dry_run")]
    groups: dict[tuple, list[Line]] = {}
    for line in sorted(runs, key=lambda run: bool(run.get("error"))):
        groups.setdefault(group_of_failed(line, groups), []).append(line)
    text = []
    for (model, precision, batch, sequence, _, deterministic), group in groups.items():
        plain = [run for run in group
                 if run["mode"] == "plain" and not run.get("error") and not run["cap_bytes"]]
        text += ["", f"## {model}, {precision}, batch {batch}, sequence {sequence}"
                     f"{', deterministic kernels' if deterministic else ''}", ""]
        text += markdown_table(COLUMNS, (row(run, plain, ceilings) for run in group))
    return text


def head(lines: Sequence[Line]) -> list[str]:
    machine = next((line for line in lines if line.get("kind") == "machine"), {})
    gpu = machine.get("gpu") or {}
    text = ["# GPU benchmark", ""]
    text.append(f"{gpu.get('name', 'unknown GPU')}, driver {gpu.get('driver_version', '?')}; "
                f"{machine.get('cpu', '?')}, {machine.get('cores', '?')} cores; "
                f"torch {machine.get('torch', '?')}; commit {machine.get('commit') or '?'}")
    return text


def checks(lines: Sequence[Line]) -> list[str]:
    """What neither trained nor is a rate: builds, tests, sanitizers; and whatever never got to a line of its own."""
    found = [line for line in lines if line.get("kind", "check") == "check" and "write_gb_per_s" not in line]
    rows = [(line["entry"], f"{line['seconds']:.0f}",
             "skipped" if line.get("skipped") else "FAILED" if line.get("error") else "ok",
             cell(line.get("error") or line.get("skipped") or line.get("said")))
            for line in found]
    return ["", *markdown_table(("entry", "seconds", "", "said"), rows)] if rows else []


def rates(lines: Sequence[Line], ceilings: Line | None) -> list[str]:
    rows = [(name.removesuffix("_bytes_per_s").replace("_", " "), f"{value / 1e9:.2f}")
            for name, value in (ceilings or {}).items() if name.endswith("_bytes_per_s")]
    nvme = next((line for line in lines if "write_gb_per_s" in line), {})
    rows += [(f"nvme {way}", f"{nvme[f'{way}_gb_per_s']:.2f}") for way in ("write", "read") if nvme]
    return ["", *markdown_table(("ceiling", "GB/s"), rows)] if rows else []


def codecs(lines: Sequence[Line]) -> list[str]:
    """Raw bytes a second, and their share of what the GPU's own copy of the same bytes does."""
    line = next((line for line in lines if line.get("kind") == "codecs"), {})
    rows = [(row["codec"], row["dtype"],
             *(f"{row[f'{way}_gb_per_s']:.0f} ({row[f'{way}_of_copy']:.2f}, {row[f'{way}_moved_of_copy']:.2f})"
               for way in ("encode", "decode")),
             f"{row['copy_gb_per_s']:.0f}")
            for row in line.get("rows", ())]
    text = line.get("error") or line.get("skipped")
    if text:
        return ["", f"Codecs: {cell(text)}"]
    columns = ("codec", "dtype", "encode GB/s (of copy, by bytes moved)", "decode GB/s (of copy, by bytes moved)", "copy GB/s")
    return ["", *markdown_table(columns, rows)] if rows else []


def render(lines: Sequence[Line]) -> str:
    ceilings = next((line for line in lines if line.get("kind") == "ceilings"), None)
    return "\n".join([*head(lines), *checks(lines), *rates(lines, ceilings), *codecs(lines),
                      *trainings(lines, ceilings)]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE",
                        help="default: every bench/results/*.jsonl")
    options = parser.parse_args()
    files = options.files or sorted((ROOT / "bench" / "results").glob("*.jsonl"))
    if not files:
        print("gpu-table: no bench/results/*.jsonl; bench/gpu/run.sh writes one on a machine with a GPU",
              file=sys.stderr)
        return 2
    for file in files:
        print(render(read(file.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
