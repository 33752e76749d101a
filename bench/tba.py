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
from compare_real import Model

MODELS = ("gpt2", "bert", "t5")
PEAK_BAR, STEP_BAR, FORETOLD_BAR = 0.53, 1.03, 0.05
LEAST_ROUNDS = 9
QUICK = {"least-rounds": 1, "minutes": 0}
RESULTS = pathlib.Path(common.ROOT) / "bench" / "results" / "tba.json"


def main() -> None:
    options = parse_arguments()
    flags = {"shares": (1.0,), "policies": ("tba",), "least-rounds": LEAST_ROUNDS} | (QUICK if options.quick else {})
    emit(options, *compare_real.run_models(options, MODELS, flags, RESULTS))


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
    compare_real.add_flags(parser, MODELS, RESULTS)
    common.add_minutes(parser, "in all, of each model as much; at least nine rounds")
    return parser.parse_args()


if __name__ == "__main__":
    main()
