# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What bench-peers makes of its runs: a row a system, the bars, and the Markdown of both."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import common
import train_runs

STEP_BAR, IMPORT_BAR_S, IDLE_BAR, LEAST_ROUNDS, LEAST_IMPORTS = 1.10, 0.2, 1.01, 5, 7
MOVES = {"spillway_25": 0.25, "spillway_50": 0.5, "spillway_75": 0.75}  # of plain's peak, with a drive
AGAIN = {"recompute_30": 0.3, "recompute_50": 0.5, "recompute_75": 0.75}  # with none
SHARES = {**MOVES, **AGAIN}


class Rows(NamedTuple):
    """What was measured of each system."""
    runs: dict[str, list[dict[str, Any]]]  # one a round, as train.py printed it, or {"error": why}
    plain_peak_bytes: int


def seconds(run: dict[str, Any]) -> float:
    return common.median(run["step_seconds"][1:])


def row(name: str, rows: Rows) -> dict[str, Any]:
    """One system in numbers; {"error": why} when a run of it failed."""
    runs, plain = rows.runs[name], rows.runs["plain"]
    for run in [*runs, *plain]:
        if "error" in run:
            return {"error": run["error"]}
    steps = len(runs[0]["losses"])
    peak = max(run.get("allocator_peak_bytes", 0) for run in runs)
    return {
        "allocator_peak_bytes": peak,
        "peak_over_plain": round(peak / rows.plain_peak_bytes, 4),
        "process_peak_bytes": max(run["process_peak_bytes"] for run in runs),
        "baseline_rss_bytes": max(run["baseline_rss_bytes"] for run in runs),
        "step_s": common.spread([seconds(run) for run in runs]),
        "ratio": common.spread([seconds(run) / seconds(other)
                                for run, other in zip(runs, plain, strict=True)]),
        "stored_bytes_per_step": common.median([run.get("stored_bytes", 0) for run in runs]) / steps,
        "loaded_bytes_per_step": common.median([run.get("loaded_bytes", 0) for run in runs]) / steps,
        "recomputed_bytes_per_step": common.median([run.get("recomputed_bytes", 0) for run in runs]) / steps,
        "stall_s_per_step": common.spread(
            [(run.get("stall_store_ns", 0) + run.get("stall_load_ns", 0)) / steps / 1e9 for run in runs]),
        "losses_equal": all(run["losses"] == plain[0]["losses"] for run in runs),
        "gradients_equal": all(run["gradients"] == plain[0]["gradients"] for run in runs),
    }


def bars(table: dict[str, dict[str, Any]], hooks: dict[str, Any], idle: dict[str, Any],
         imported: dict[str, Any], rounds: int, is_steady: bool = True) -> dict[str, dict[str, Any]]:
    """Each bar: the value, the bar, whether it holds. Where the machine is not steady, a time holds whatever it is."""
    ran = {name: line for name, line in table.items() if "error" not in line}
    quarter = ran.get("spillway_25", {})
    exact = [name for name, line in ran.items() if line["losses_equal"] and line["gradients_equal"]]
    within = [name for name in ran if name in SHARES and ran[name]["peak_over_plain"] <= SHARES[name]
              and ran[name]["stored_bytes_per_step" if name in MOVES else "recomputed_bytes_per_step"] > 0]
    ratio = quarter["ratio"][1] if quarter else None
    checks = {
        "all ran": (len(ran), len(table), len(ran) == len(table) and "error" not in hooks),
        "losses and gradients equal to plain's": (len(exact), len(ran), exact == list(ran)),
        "Spillway moves or recomputes, within its budget": (len(within), len(SHARES), len(within) == len(SHARES)),
        "step at a quarter of plain's peak": (ratio, STEP_BAR, ratio is not None and (ratio <= STEP_BAR or not is_steady)),
        "a session with nothing to do": (idle["ratio"][1], IDLE_BAR, (idle["ratio"][1] <= IDLE_BAR or not is_steady)
                                         and idle["stored_bytes"] == 0 and idle["losses_equal"]),
        "import, seconds": (imported["added_s"][1], IMPORT_BAR_S,
                            imported["added_s"][1] <= IMPORT_BAR_S or not is_steady),
        "rounds": (rounds, LEAST_ROUNDS, rounds >= LEAST_ROUNDS or not is_steady),
        "imports": (imported["pairs"], LEAST_IMPORTS, imported["pairs"] >= LEAST_IMPORTS),
    }
    return {name: {"value": value, "bar": bar, "holds": holds}
            for name, (value, bar, holds) in checks.items()}


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines)) + "\n"


def spread_text(values: Sequence[float], form: str = ".3f") -> str:
    low, middle, high = (format(value, form) for value in values)
    return f"{middle} ({low} to {high})"


def cells(name: str, line: dict[str, Any]) -> list[str]:
    if "error" in line:
        return [name, "failed: " + line["error"].replace("|", "/"), *[""] * 9]

    def mib(count: float) -> str:
        return format(count / train_runs.MIB, ",.0f")

    return [name, mib(line["allocator_peak_bytes"]), format(line["peak_over_plain"], ".3f"),
            mib(line["process_peak_bytes"]), spread_text(line["step_s"]), spread_text(line["ratio"]),
            mib(line["stored_bytes_per_step"]), mib(line["loaded_bytes_per_step"]), mib(line["recomputed_bytes_per_step"]),
            *("equal" if line[what] else "NOT equal" for what in ("losses_equal", "gradients_equal"))]


def tables(detail: dict[str, Any]) -> str:
    systems = markdown(
        ["system", "peak, MiB", "of plain's", "VmHWM, MiB", "step, s", "of plain's", "stored, MiB a step",
         "loaded", "recomputed", "losses", "gradients"], [cells(*item) for item in detail["systems"].items()])
    checks = markdown(["bar", "value", "required", "holds"],
                      [[name, str(bar["value"]), str(bar["bar"]), "yes" if bar["holds"] else "NO"]
                       for name, bar in detail["bars"].items()])
    return f"{systems}\n{hook_table(detail['hooks'])}\n{checks}"


def hook_table(hooks: dict[str, Any]) -> str:
    if "error" in hooks:
        return f"Hooks: failed: {hooks['error']}\n"
    names = list(hooks["sizes"][0]["ns"])
    return markdown(["ns a saved tensor of", *names],
                    [[f"{line['tensor_bytes']:,} bytes",
                      *(spread_text(line["ns"][name], ",.0f") for name in names)] for line in hooks["sizes"]])
