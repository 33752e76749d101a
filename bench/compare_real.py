#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-compare-real: every policy that plans, and those that choose at run time, beside the others, in real steps on this machine.

A GPT, a LLaMA and a ResNet of small size with random weights, each in a process of its own (compare_real_models.py), under
three budgets: floor + share x (peak - floor), the floor the smallest budget that works, as `spillway.compare` says. What it
foretells is beside what was measured: the quickest step over plain's quickest, over rounds that run each once, and peaks.

Results go to --json FILE; of that file `--table` prints a Markdown table, `--picture FILE` draws it, and `--page` puts both into
docs/how_to/choose_a_policy.md (the picture where docs/pictures/policies.svg is there); none of these runs a step. value = the median over all rows of |measured / foretold - 1|, of
steps; it has no bar, and is of a machine as busy as it was. Holds when every step has plain's bits and no peak is above its budget.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import common
import page_tables
import steady
import train_runs

SHARES = (1 / 2, 1 / 4, 1 / 8)
MODELS = {"gpt2": "GPT-2", "llama": "LLaMA", "resnet18": "ResNet-18"}
LEAST_ROUNDS = 3
NAMED = 7  # policies with a color in the picture
QUICK = {"shares": SHARES[:1], "least-rounds": 1, "minutes": 0}
RESULTS = pathlib.Path(common.ROOT) / "bench" / "results" / "compare_real.json"
PAGE = page_tables.DOCS / "how_to" / "choose_a_policy.md"
PICTURE = page_tables.DOCS / "pictures" / "policies.svg"
NOT_YET = "Not measured yet on a machine that does nothing else."

Model = dict[str, Any]
Row = dict[str, Any]


def main() -> None:
    options = parse_arguments()
    if options.table or options.page or options.picture:
        show(options, read(options.json))
        return
    models, machine = run_models(options, MODELS, {"shares": SHARES, "least-rounds": LEAST_ROUNDS} | (QUICK if options.quick else {}), RESULTS)
    wrong = [fault for model in models for fault in faults(model)]
    common.emit("compare_real", off_by(models), "ratio", None, not wrong, {
        "faults": wrong, "rows": sum(len(measured_rows(model)) for model in models),
        "peak_off_by": peak_off_by(models), "steady": {model["model"]: steady.is_steady(model["plain_over_plain"]) for model in models},
        "threads": options.threads, "quick": options.quick, "machine": machine})


def run_models(options: argparse.Namespace, all_names: Iterable[str], flags: dict[str, Any], results: pathlib.Path) -> tuple[list[Model], dict[str, Any]]:
    """Those of `all_names` that are asked for, each for its share of the minutes unless `flags` has some, and the machine; both
    go to --json, where a quick run leaves the committed `results` alone."""
    deadline, names = common.Deadline(options.minutes), options.only or list(all_names)
    with train_runs.scratch(options) as folder:
        models = [run_model(options, name, folder, {"minutes": deadline.share(len(names) - number), **flags}) for number, name in enumerate(names)]
    machine = common.machine()
    if not options.quick or options.json != results:
        options.json.write_text(as_text({"machine": machine, "threads": options.threads, "models": models}), encoding="utf-8")
    return models, machine


def run_model(options: argparse.Namespace, name: str, folder: str, flags: dict[str, Any]) -> Model:
    """Of compare_real_models.py, in a process of its own; lists among its flags are JSON there."""
    flags = {"model": name, "folder": pathlib.Path(folder).resolve(), "threads": options.threads, **flags}
    words = {flag: json.dumps(value) if isinstance(value, (tuple, list)) else value for flag, value in flags.items()}
    command = ["tools/package.sh", os.path.relpath(options.build.resolve(), common.ROOT), "bench/compare_real_models.py",
               *(f"--{flag}={value}" for flag, value in words.items()), *(["--quick"] if options.quick else [])]
    done = subprocess.run(command, cwd=common.ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        train_runs.stop(f"{pathlib.Path(sys.argv[0]).stem}: {name} failed ({done.returncode})")
    return rounded(json.loads(done.stdout.strip().splitlines()[-1]))


def rounded(value: Any) -> Any:
    """Floats to four digits after the point."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def measured_rows(model: Model) -> list[Row]:
    return [row for row in model["rows"] if "measured" in row]


def off_by(models: list[Model]) -> float | None:
    """Of steps, as a share of what was foretold."""
    ratios = [abs(row["measured"] / row["foretold"] - 1) for model in models for row in measured_rows(model)]
    return round(common.median(ratios), 4) if ratios else None


def peak_off_by(models: list[Model]) -> list[float]:
    """The smallest, the median and the largest of measured over foretold peaks."""
    return common.spread([row["measured_peak_bytes"] / foretold_peak(row) for model in models for row in measured_rows(model)])


def foretold_peak(row: Row) -> int:
    """Bytes. A session plans by the step that it recorded itself: where it does, its own plan's peak."""
    return row.get("own_foretold_peak_bytes") or row["foretold_peak_bytes"]


def faults(model: Model) -> list[str]:
    """What would be wrong whatever the times are."""
    found = []
    for row in measured_rows(model):
        who = f"{row['policy']}, {model['model']}, {row['share']:g}"
        found += [f"{who}: not plain's bits"] * (not row["bits_equal"])
        found += [f"{who}: {row['measured_peak_bytes']} bytes of {row['budget_bytes']}"] * (row["measured_peak_bytes"] > row["budget_bytes"])
    return found


def read(path: pathlib.Path) -> list[Model]:
    """Empty where nothing was measured."""
    if not path.exists():
        return []
    models: list[Model] = json.loads(path.read_text(encoding="utf-8"))["models"]
    return models


def page_text(models: list[Model]) -> str:
    if not models:
        return NOT_YET
    picture = "\n\n![Measured step time by budget, a panel for each model](../pictures/policies.svg)" if PICTURE.exists() else ""
    return table(models) + picture + unsteady(models)


def unsteady(models: list[Model]) -> str:
    """A sentence on the models whose plain steps differed beside each other; empty where none did."""
    differed = [f"{MODELS[model['model']]} ({max(abs(ratio - 1) for ratio in model['plain_over_plain']):.0%})"
                for model in models if not steady.is_steady(model["plain_over_plain"])]
    return "\n\nUnsteady: beside each other, two steps of plain differed by up to that share: " + ", ".join(differed) + "." if differed else ""


def show(options: argparse.Namespace, models: list[Model]) -> None:
    if options.picture:
        import plot_policies  # noqa: PLC0415 - needs matplotlib
        plot_policies.draw(models, names_in_order(models)[:NAMED], options.picture, MODELS)
    elif options.page:
        page_tables.put(PAGE, "compare_real", page_text(models))
    else:
        print(table(models))


def table(models: list[Model]) -> str:
    """Markdown: a row for each policy, a column for each model and budget."""
    heads = [(model, share) for model in models for share in dict.fromkeys(row["share"] for row in model["rows"])]
    lines = ["| policy | " + " | ".join(f"{MODELS[model['model']]}, {fraction(share)}" for model, share in heads) + " |",
             "|---|" + "---|" * len(heads)]
    for name in names_in_order(models):
        lines.append(f"| `{name}` | " + " | ".join(cell(row_of(model, name, share)) for model, share in heads) + " |")
    return "\n".join(lines)


def names_in_order(models: list[Model]) -> list[str]:
    """Of policies: those that run most often first, and of these the quicker ones."""
    return sorted(dict.fromkeys(row["policy"] for model in models for row in model["rows"]), key=lambda name: order(models, name))


def row_of(model: Model, name: str, share: float) -> Row:
    [row] = [row for row in model["rows"] if (row["policy"], row["share"]) == (name, share)]
    return row


def order(models: list[Model], name: str) -> tuple[int, float]:
    steps = [row["measured"] for model in models for row in measured_rows(model) if row["policy"] == name]
    return -len(steps), sum(steps)


def fraction(share: float) -> str:
    return f"1/{1 / share:g}"


def cell(row: Row) -> str:
    """Measured, and what was foretold of it."""
    return f"{row['measured']:.2f} ({row['foretold']:.2f})" if "measured" in row else "-"


def as_text(results: dict[str, Any]) -> str:
    """JSON with a line for each row."""
    rows = [[json.dumps(row) for row in model["rows"]] for model in results["models"]]
    bare = {**results, "models": [{**model, "rows": f"rows of {number}"} for number, model in enumerate(results["models"])]}
    text = json.dumps(bare, indent=1)
    for number, lines in enumerate(rows):
        text = text.replace(f'"rows of {number}"', "[\n    " + ",\n    ".join(lines) + "\n   ]")
    return text + "\n"


def add_flags(parser: argparse.ArgumentParser, models: Iterable[str], results: pathlib.Path) -> None:
    """Of benches that run compare_real_models.py."""
    parser.add_argument("--build", type=pathlib.Path, default=train_runs.ROOT / "build" / "torch", metavar="DIR",
                        help="where spillway is built (default build/torch)")
    parser.add_argument("--folder", type=pathlib.Path, metavar="DIR", help="on the disk that saved tensors wait on (default: the build folder)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of torch's operators, in every step (default %(default)s)")
    parser.add_argument("--only", action="append", choices=models, help="of these models, one each time")
    parser.add_argument("--json", type=pathlib.Path, default=results, help=f"where the results go [bench/results/{results.name}]")
    parser.add_argument("--quick", action="store_true", help="tiny, one round, few policies: shows that all of it works")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser, MODELS, RESULTS)
    common.add_minutes(parser, "in all, of each model as much; a budget has at least three rounds")
    parser.add_argument("--table", action="store_true", help="Markdown of the file of results")
    parser.add_argument("--page", action="store_true", help="puts that into docs/how_to/choose_a_policy.md")
    parser.add_argument("--picture", type=pathlib.Path, metavar="FILE", help="draws it (.svg)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
