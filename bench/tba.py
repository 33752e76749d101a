#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-tba: what TBA / SSDTrain's policy saves of the activations' peak on this machine's drive, and what that costs.

GPT-2, BERT and T5 of transformers, small, with random weights, a forward and a backward, each model in a process of its own
(compare_real_models.py), under `policy="tba"` with all the memory that the step has: what leaves is what their formula says can
hide. The authors report an activation peak 28 to 47 % lower at a step of 1.00 to 1.03.

value = the largest peak of activations (the peak without parameters and buffers) over plain's of the three. Holds when it is at most
0.53 with steps of at most 1.03 of those of a session that moves nothing, or where less hides on this drive, when the peak is within
5 % of the one that the plan foretold; and when all steps have plain's bits. Where plain beside plain differs by 2 % or more, times
are not judged. Results go to --json FILE.
"""

import argparse
import pathlib
from typing import Any

import common
import compare_real
import steady
import train_runs
from compare_real import Model

MODELS = {"gpt2": "GPT-2", "bert": "BERT", "t5": "T5"}
PEAK_BAR, STEP_BAR, FORETOLD_BAR = 0.53, 1.03, 0.05
FLAGS = {"shares": (1.0,), "policies": ("tba",), "least-rounds": 9}
RESULTS = pathlib.Path(common.ROOT) / "bench" / "results" / "tba.json"


def main() -> None:
    options = parse_arguments()
    deadline, names = common.Deadline(options.minutes), options.only or list(MODELS)
    with train_runs.scratch(options) as folder:
        models = []
        for number, name in enumerate(names):
            minutes = 0 if options.quick else deadline.share(len(names) - number)
            rounds = {"least-rounds": 1} if options.quick else {}
            models.append(compare_real.run_model(options, name, folder, {**FLAGS, **rounds, "minutes": minutes}))
    machine = common.machine()
    if not options.quick or options.json != RESULTS:
        results = {"machine": machine, "threads": options.threads, "models": models}
        options.json.write_text(compare_real.as_text(results), encoding="utf-8")
    emit(options, models, machine)


def emit(options: argparse.Namespace, models: list[Model], machine: dict[str, Any]) -> None:
    found = {model["model"]: figures(model) for model in models}
    calm = {model["model"]: steady.is_steady(model["plain_over_plain"]) for model in models}
    faults = [fault for model in models for fault in compare_real.faults(model)]
    is_judged = all(calm.values()) and not options.quick
    good = all(holds(figure) for figure in found.values())
    common.emit("tba", max(figure["activations"] for figure in found.values()), "ratio", PEAK_BAR, not faults and (good or not is_judged), {
        "faults": faults, "models": found, "steady": calm, "threads": options.threads, "quick": options.quick, "machine": machine},
        unsteady=not all(calm.values()))


def figures(model: Model) -> dict[str, float]:
    """Peaks of activations over plain's, as measured and as foretold, and the step over one that moves nothing."""
    [row] = model["rows"]
    plain = model["peak_bytes"] - model["model_bytes"]
    return {"activations": round((row["measured_peak_bytes"] - model["model_bytes"]) / plain, 4),
            "foretold": round((compare_real.foretold_peak(row) - model["model_bytes"]) / plain, 4),
            "step": row["measured_over_held"], "stored_bytes": row["stored_bytes"]}


def holds(figure: dict[str, float]) -> bool:
    is_as_foretold = abs(figure["activations"] / figure["foretold"] - 1) <= FORETOLD_BAR
    return figure["step"] <= STEP_BAR and (figure["activations"] <= PEAK_BAR or is_as_foretold)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    compare_real.add_places(parser)
    common.add_minutes(parser, "in all, of each model as much; at least nine rounds")
    parser.add_argument("--only", action="append", choices=MODELS, help="of these models, one each time")
    parser.add_argument("--json", type=pathlib.Path, default=RESULTS, help="where the results go [bench/results/tba.json]")
    parser.add_argument("--quick", action="store_true", help="tiny, one round: shows that all of it works")
    return parser.parse_args()


if __name__ == "__main__":
    main()
