#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-foretell: what was foretold of a step's time and peak, beside what real steps took on this machine.

GPT-2, LLaMA, T5 (of transformers), a vision transformer and ResNet-18, small, with random weights, each in a process of its
own (compare_real_models.py), under floor + x (peak - floor), x = 1/2 and 1/4, by policies that move, make again and do both.
`spillway.compare` foretells each from one recorded step and this machine's probed drive: step / the step with nothing moved.
Beside it stands the same as measured: the quickest step over the quickest of a session that moves nothing, which is plain on
the same allocator, in rounds that run every side once, in an order of their own.

value = the median over models, policies and budgets of how far the foretold ratio is from the measured one. Holds when it is
at most 0.07, all pairs of a model that differ by more than 10 % as measured are foretold in that order, no peak is above its
budget or above 1.03 of the foretold one, and all steps have plain's bits. Where plain beside plain differs by 2 % or more, times
are not judged. Results go to --json FILE; of it `--table` prints a Markdown table, and `--page` puts it into docs/benchmarks.md.
"""

import argparse
import itertools
import pathlib
from typing import Any

import common
import compare_real
import page_tables
import steady
from compare_real import Model, Row, measured_rows

MODELS = {"gpt2": "GPT-2", "llama": "LLaMA", "t5": "T5", "vit": "ViT", "resnet18": "ResNet-18"}
POLICIES = ("online", "tba", "str", "capuchin", "sqrt_checkpoint", "auto")
SHARES = (1 / 2, 1 / 4)
BAR, APART, PEAK_BAR = 0.07, 1.10, 1.03
LEAST_ROUNDS = 5
QUICK = {"shares": SHARES[:1], "policies": ("online", "sqrt_checkpoint"), "least-rounds": 1, "minutes": 0}
RESULTS = pathlib.Path(common.ROOT) / "bench" / "results" / "foretell.json"
PAGE = page_tables.DOCS / "benchmarks.md"


def main() -> None:
    options = parse_arguments()
    if options.table or options.page:
        show(options, compare_real.read(options.json))
        return
    flags = {"shares": SHARES, "policies": POLICIES, "least-rounds": LEAST_ROUNDS} | (QUICK if options.quick else {})
    emit(options, *compare_real.run_models(options, MODELS, flags, RESULTS))


def emit(options: argparse.Namespace, models: list[Model], machine: dict[str, Any]) -> None:
    calm = {model["model"]: steady.is_steady(model["plain_over_plain"]) for model in models}
    value, wrong, faults = off_by(models), wrong_pairs(models), [fault for model in models for fault in faults_of(model, options.quick)]
    is_judged = all(calm.values()) and not options.quick
    common.emit("foretell", value, "ratio", BAR, not faults and (not is_judged or holds(value, wrong)), {
        "faults": faults, "off_by": {model["model"]: off_by([model]) for model in models},
        "off_by_policy": {name: off_by(models, name) for name in policies_of(models)},
        "pairs": len(pairs(models)), "wrong_pairs": wrong, "peak_over_foretold": compare_real.peak_off_by(models),
        "steady": calm, "threads": options.threads, "quick": options.quick, "machine": machine}, unsteady=not all(calm.values()))


def holds(value: float | None, wrong: list[str]) -> bool:
    return value is not None and value <= BAR and not wrong


def policies_of(models: list[Model]) -> list[str]:
    return list(dict.fromkeys(row["policy"] for model in models for row in model["rows"]))


def off_by(models: list[Model], policy: str = "") -> float | None:
    """The median, of a policy or of all."""
    found = [abs(row["foretold"] / row["measured_over_held"] - 1) for model in models for row in measured_rows(model)
             if policy in ("", row["policy"])]
    return round(common.median(found), 4) if found else None


def pairs(models: list[Model]) -> list[tuple[str, Row, Row]]:
    """Two rows of a model, the quicker one first, that differ by more than 10 % as measured."""
    found = []
    for model in models:
        rows = sorted(measured_rows(model), key=lambda row: row["measured_over_held"])
        found += [(model["model"], quick, slow) for quick, slow in itertools.combinations(rows, 2)
                  if slow["measured_over_held"] > APART * quick["measured_over_held"]]
    return found


def wrong_pairs(models: list[Model]) -> list[str]:
    """Those that were not foretold in that order."""
    return [f"{model}: {words(quick)} before {words(slow)}" for model, quick, slow in pairs(models)
            if quick["foretold"] >= slow["foretold"]]


def words(row: Row) -> str:
    return f"{row['policy']} {compare_real.fraction(row['share'])}"


def faults_of(model: Model, quick: bool = False) -> list[str]:
    """What would be wrong whatever the times are. How full the device is while bytes move to a slow drive is no fault of a quick run."""
    above = [row for row in measured_rows(model) if row["measured_peak_bytes"] > PEAK_BAR * compare_real.foretold_peak(row)
             and not (quick and row["stored_bytes"])]
    return compare_real.faults(model) + [
        f"{row['policy']}, {model['model']}, {row['share']:g}: a peak of {row['measured_peak_bytes']} bytes, "
        f"{compare_real.foretold_peak(row)} foretold" for row in above]


def show(options: argparse.Namespace, models: list[Model]) -> None:
    if options.page:
        page_tables.put(PAGE, "foretell", page_text(models))
    else:
        print(table(models))


def page_text(models: list[Model]) -> str:
    return table(models) if models else compare_real.NOT_YET


def table(models: list[Model]) -> str:
    """Markdown: a row for each policy and budget, a column for each model."""
    rows = dict.fromkeys((row["policy"], row["share"]) for model in models for row in model["rows"])
    lines = ["| policy | budget | " + " | ".join(MODELS[model["model"]] for model in models) + " |", "|---|---|" + "---|" * len(models)]
    for name, share in rows:
        cells = (cell(compare_real.row_of(model, name, share)) for model in models)
        lines.append(f"| `{name}` | {compare_real.fraction(share)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(row: Row) -> str:
    """Measured, and what was foretold of it."""
    return f"{row['measured_over_held']:.2f} ({row['foretold']:.2f})" if "measured" in row else "-"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    compare_real.add_flags(parser, MODELS, RESULTS)
    common.add_minutes(parser, "in all, of each model as much; a budget has at least five rounds")
    parser.add_argument("--table", action="store_true", help="Markdown of the file of results")
    parser.add_argument("--page", action="store_true", help="puts that into docs/benchmarks.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
