#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-compare: every policy that moves or makes again, beside the others, by simulation.

Four models on three machines (data sheets, with host memory and without NVMe), each in a batch whose peak exceeds the
card's memory, under four budgets: floor + share x (peak - floor). The floor is the smallest budget that works: all that
can leave is away, except while it is used. Nothing runs and no clock is read: `spillway trace --model` makes the steps,
`spillway compare` foretells each policy. SwapAdvisor searches few generations, so that all takes two minutes.

A policy's number is the step time over the time of compute alone. Results go to --json FILE; of that file `--table` prints
a Markdown table, and `--page` puts it into docs/systems.md, and what is quickest into docs/how_to/choose_a_policy.md; neither
simulates. value = the lowest geometric mean that a lossless policy has of all rows (those that run everywhere). Holds
when no foretold peak is above its budget and no step is quicker than compute.
"""

import argparse
import itertools
import json
import math
import pathlib
import re
import statistics
import tempfile
from typing import Any

import common
import known_steps
import page_tables
from known_steps import Comparison, Row, Step

SHARES = (0.75, 0.5, 0.25, 0.1)
LOSSY = "qpo"  # the one whose values are not bit-identical
SEARCH = {"swapadvisor": "swapadvisor:generations=2,population=8"}
TRANSFORMERS, CONVOLUTIONS = ("gpt2-345m", "bert-large"), ("vgg16", "resnet50")
STEPS = [
    Step("gpt2-345m", "titan_x", 8), Step("bert-large", "titan_x", 16),
    Step("vgg16", "titan_x", 256), Step("resnet50", "titan_x", 256),
    Step("gpt2-345m", "a100_40", 32, "bfloat16"), Step("bert-large", "a100_40", 64, "bfloat16"),
    Step("vgg16", "a100_40", 1024, "bfloat16"), Step("resnet50", "a100_40", 1024, "bfloat16"),
    Step("gpt2-345m", "rtx4090", 16, "bfloat16"), Step("bert-large", "rtx4090", 48, "bfloat16"),
    Step("vgg16", "rtx4090", 768, "bfloat16"), Step("resnet50", "rtx4090", 768, "bfloat16"),
]
QUICK = STEPS[2:3]
RESULTS = pathlib.Path(common.ROOT) / "bench" / "results" / "compare.json"
PAGE, BEST_PAGE = page_tables.DOCS / "systems.md", page_tables.DOCS / "how_to" / "choose_a_policy.md"
BEST = 3  # policies of a cell


def main() -> None:
    options = parse_arguments()
    if options.table or options.page:
        text = table(read_cases(options.json))
        if options.page:
            page_tables.put(PAGE, "compare", text)
            page_tables.put(BEST_PAGE, "compare", best_table(read_cases(options.json)))
        else:
            print(text)
        return
    with tempfile.TemporaryDirectory() as name:
        program = known_steps.Program(options.build, pathlib.Path(name))
        cases = [case_of(program, step) for step in (QUICK if options.quick else STEPS)]
    wrong = [fault for case in cases for fault in case["faults"]]
    best, value = quickest(cases)
    if not options.quick or options.json != RESULTS:
        options.json.write_text(as_text({"commit": common.machine()["commit"], "shares": SHARES, "cases": cases}), encoding="utf-8")
    common.emit("compare", value, "ratio", None, not wrong, {
        "quickest": best, "geometric_means": means(cases), "steps": len(cases), "shares": SHARES, "faults": wrong,
        "machine": common.machine()})


def read_cases(path: pathlib.Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return cases


def case_of(program: known_steps.Program, step: Step) -> dict[str, Any]:
    """All policies on one step: a list of slowdowns for each, by budget; None where one does not run."""
    bare = program.compare(step, ["online"], [])
    budgets = [bare.floor_bytes + round(share * (bare.peak_bytes - bare.floor_bytes)) for share in SHARES]
    names = [SEARCH.get(name, name) for name in (*program.policies(), LOSSY)]
    told = program.compare(step, names, budgets)
    common.progress(f"{step.model} on {step.machine}: {len(told.rows)} rows")
    by_policy = {name: list(rows) for name, rows in itertools.groupby(told.rows, lambda row: row.policy)}
    return {
        "model": step.model, "machine": step.machine, "batch": step.batch, "dtype": step.dtype,
        "compute_s": round(told.compute_ns / 1e9, 4), "peak_bytes": told.peak_bytes, "floor_bytes": told.floor_bytes,
        "budgets": budgets,
        "slowdowns": {name: [round(row.slowdown, 4) if row.runs else None for row in rows]
                      for name, rows in by_policy.items()},
        "refusals": {name: sorted({row.refusal for row in rows if not row.runs})
                     for name, rows in by_policy.items() if not all(row.runs for row in rows)},
        "faults": faults(step, told),
    }


def faults(step: Step, told: Comparison) -> list[str]:
    """What cannot be, whatever a policy does."""
    def is_wrong(row: Row) -> bool:
        return row.runs and (row.slowdown < 1 or row.peak_bytes > row.budget_bytes)
    return [f"{row.policy}, {step.model}, {step.machine}: {row.slowdown:.4f} of compute, {row.peak_bytes} bytes of {row.budget_bytes}"
            for row in told.rows if is_wrong(row)]


def means(cases: list[dict[str, Any]]) -> dict[str, float | None]:
    """Each policy's over all steps and budgets."""
    return {name: geometric_mean([s for case in cases for s in case["slowdowns"][name]]) for name in cases[0]["slowdowns"]}


def quickest(cases: list[dict[str, Any]]) -> tuple[str, float]:
    """The policy of the lowest geometric mean among those that run everywhere, and that mean."""
    everywhere = {name: mean for name, mean in means(cases).items() if mean is not None and name != LOSSY}
    return min(everywhere.items(), key=lambda entry: entry[1])


def geometric_mean(slowdowns: list[float | None]) -> float | None:
    """None where a policy does not run in one of them."""
    ran = [slowdown for slowdown in slowdowns if slowdown is not None]
    if not ran or len(ran) < len(slowdowns):
        return None
    return round(math.exp(statistics.fmean(map(math.log, ran))), 4)


def table(cases: list[dict[str, Any]]) -> str:
    """Markdown: a row for each policy, the quickest first, a column for each budget of the two kinds of models."""
    kinds = [[case for case in cases if case["model"] in models] for models in (TRANSFORMERS, CONVOLUTIONS)]
    heads = [f"{kind}, {share:g}" for kind in ("transformers", "convolutions") for share in SHARES]
    names = sorted(cases[0]["slowdowns"], key=lambda name: order(cases, name))
    lines = ["| policy | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for name in names:
        cells = [cell([case["slowdowns"][name][i] for case in kind]) for kind in kinds for i in range(len(SHARES))]
        lines.append(f"| `{name}`{', lossy' if name == LOSSY else ''} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def best_table(cases: list[dict[str, Any]]) -> str:
    """Markdown: a row for each model, a column for each budget: the quickest lossless policies there, of those that run on all machines."""
    lines = ["| model | " + " | ".join(f"{share:g}" for share in SHARES) + " |", "|---|" + "---|" * len(SHARES)]
    for model in dict.fromkeys(case["model"] for case in cases):
        of_model = [case for case in cases if case["model"] == model]
        cells = [", ".join(f"`{name}` {mean:.2f}" for mean, name in best(of_model, i)) for i in range(len(SHARES))]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def best(cases: list[dict[str, Any]], budget: int) -> list[tuple[float, str]]:
    found = [(geometric_mean([case["slowdowns"][name][budget] for case in cases]), name)
             for name in cases[0]["slowdowns"] if name != LOSSY]
    return sorted((mean, name) for mean, name in found if mean is not None)[:BEST]


def order(cases: list[dict[str, Any]], name: str) -> tuple[int, float]:
    """Those that run in more cases first, then the quicker ones."""
    ran = [s for case in cases for s in case["slowdowns"][name] if s is not None]
    return -len(ran), statistics.fmean(map(math.log, ran)) if ran else 0.0


def cell(slowdowns: list[float | None]) -> str:
    """Geometric mean, and in how many of the cases it runs, if not in all."""
    ran = [slowdown for slowdown in slowdowns if slowdown is not None]
    if not ran:
        return "does not run"
    mean = geometric_mean(list(ran))
    return f"{mean:.2f}" + (f" ({len(ran)} of {len(slowdowns)})" if len(ran) < len(slowdowns) else "")


def as_text(results: dict[str, Any]) -> str:
    """JSON with a line for each list of numbers, so that a change of one policy is a change of few lines."""
    def on_a_line(found: re.Match[str]) -> str:
        return "[" + " ".join(found[1].split()) + "]"
    return re.sub(r"\[([^][{}\"]*)\]", on_a_line, json.dumps(results, indent=1)) + "\n"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(common.ROOT) / "build" / "torch")
    parser.add_argument("--json", type=pathlib.Path, default=RESULTS, help="where the results go [bench/results/compare.json]")
    parser.add_argument("--table", action="store_true", help="a Markdown table of the file of results")
    parser.add_argument("--page", action="store_true", help="puts that table, and what is quickest, into docs/")
    parser.add_argument("--quick", action="store_true", help="VGG-16 alone: for tests")
    return parser.parse_args()


if __name__ == "__main__":
    main()
