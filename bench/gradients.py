#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-gradients: how far the gradients of one step are off when one class of saved tensors is encoded.

Three models with random weights and random data (gradients/models.py), each in a process of its own
(gradients/run.py). A row encodes one class by QPO's own codec and nothing else; one row all that QPO does, one
the same in 8 bits; one `attention`, which may lose something only if it is named. All saved tensors leave the
device and come back. Errors are relative L2 against plain training's gradients: of all together, the mean over
three seeds of the data; of the parameter that is off most, the largest of the seeds. The percentage is what is
encoded of the saved bytes. The last row is the scale: another batch's gradients in place of this one's.
A Markdown table, then one JSON line. value = the largest error of all that QPO encodes; it tells, and has no bar:
what such errors do to a training is bench-lossy's. Holds when rows that encode nothing or exactly are off by 0, the
others by more, and nine tenths of the saved bytes left.
"""

import argparse
import json
import os
import pathlib
from typing import Any

import common
import train_runs

LEAST_LEFT = 0.9
LEAST_SEEDS = 3
RUN = pathlib.Path(__file__).resolve().parent / "gradients" / "run.py"
MODELS = {"gpt2": "GPT-2", "llama": "LLaMA", "resnet18": "ResNet-18"}
NONE, ALL, EIGHT, ANOTHER = "nothing", "all of QPO's", "all of QPO's, in 8 bits", "another batch"
ON_ITS_OWN = {
    "linear_input": "affine4:group=256,stochastic",
    "convolution_input": "affine4:group=256,stochastic",
    "norm_input": "affine8:group=256,stochastic",
    "activation_input": "affine8:group=256,stochastic",
    "relu_output": "sign",
    "mask": "mask",
    "attention": "affine8",
}
CODECS = {
    NONE: "all=identity",
    **{each: f"all=identity,{each}={codec}" for each, codec in ON_ITS_OWN.items()},
    ALL: "",
    EIGHT: "affine8:group=256,stochastic",
}
EXACT = (NONE, "relu_output", "mask")


def main() -> None:
    options = parse_arguments()
    with train_runs.scratch(options) as folder:
        measured = {model: measure(options, model, folder) for model in options.models}
    models = {model: summary(run) for model, run in measured.items()}
    print(table(models), flush=True)
    value = max(rows[ALL]["error"] for rows in models.values())
    faults = [fault for model, rows in models.items() for fault in faults_of(model, rows)]
    faults += [f"{options.seeds} seeds"] if options.seeds < LEAST_SEEDS else []
    common.emit("gradients", round(value, 4), "relative error", None, not faults, {
        "models": models, "codecs": CODECS, "faults": faults,
        "parameters": {model: run["parameters"] for model, run in measured.items()},
        "budget_bytes": {model: run["budget_bytes"] for model, run in measured.items()},
        "seeds": options.seeds, "quick": options.quick, "threads": options.threads, "machine": common.machine(),
    })


def measure(options: argparse.Namespace, model: str, folder: str) -> dict[str, Any]:
    command = [common.torch_python(options.build), str(RUN), "--model", model, "--rows", json.dumps(CODECS), "--empty", NONE,
               "--seeds", str(options.seeds), "--threads", str(options.threads), "--folder", folder]
    environment = os.environ | {"PYTHONPATH": str(options.build / "python"), "OMP_NUM_THREADS": str(options.threads)}
    run = common.run_json(command + (["--quick"] if options.quick else []), env=environment)
    common.progress(f"{model}: measured")
    return run


def summary(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Of each row that the model has: mean and largest over seeds."""
    rows = {name: over_seeds(seeds) for name, seeds in run["rows"].items() if name == NONE or seeds[0]["classes"]}
    return rows | {ANOTHER: over_seeds(run["another_batch"])}


def over_seeds(seeds: list[dict[str, Any]]) -> dict[str, Any]:
    worst = max(seeds, key=lambda seed: seed["worst"])
    row = {"error": short(sum(seed["error"] for seed in seeds) / len(seeds)),
           "errors": [short(seed["error"]) for seed in seeds],
           "worst": short(worst["worst"]), "worst_name": worst["worst_name"]}
    if "classes" not in seeds[0]:
        return row
    classes = seeds[0]["classes"]
    encoded = sum(each["raw_bytes"] for each in classes.values())
    shares = [each["share"] for seed in seeds for each in seed["classes"].values()]
    return row | {"left": short(min([*shares, *(seed["left"] for seed in seeds)])), "classes": classes,
                  "encoded_share": short(encoded / seeds[0]["saved_bytes"])}


def short(number: float) -> float:
    """Four digits, wherever the point is: what is not 0 stays so."""
    return float(f"{number:.4g}")


def faults_of(model: str, rows: dict[str, dict[str, Any]]) -> list[str]:
    """What would make the numbers mean nothing."""
    codecs = {name: row for name, row in rows.items() if name != ANOTHER}
    return [f"{model}, {name}: {what}" for name, row in codecs.items() for what, wrong in {
        "exact, and off": name in EXACT and row["worst"] > 0,
        "lossy, and not off": name not in EXACT and row["error"] == 0,
        "stayed on the device": row["left"] < LEAST_LEFT,
    }.items() if wrong]


def table(models: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Rows of classes, columns of models; empty where the model has no such class."""
    lines = ["| encoded | by | " + " | ".join(MODELS[model] for model in models) + " |",
             "|---|---|" + "---|" * len(models)]
    for name in [*CODECS, ANOTHER]:
        title = f"`{name}`" if name in ON_ITS_OWN else name
        cells = [cell(rows[name]) if name in rows else "" for rows in models.values()]
        lines.append(f"| {title} | {ON_ITS_OWN.get(name, '')} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(row: dict[str, Any]) -> str:
    if row["worst"] == 0:
        text = "0"
    else:
        text = f"{row['error']:.2g}, worst {row['worst']:.2g}"
    return text + (f"; {100 * row['encoded_share']:.1f} %" if row.get("encoded_share") else "")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=train_runs.ROOT / "build" / "torch", metavar="DIR",
                        help="where spillway is built (default build/torch)")
    parser.add_argument("--folder", type=pathlib.Path, metavar="DIR",
                        help="that saved tensors wait in (default: the build folder)")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS), metavar="A,B",
                        help=f"default {','.join(MODELS)}")
    parser.add_argument("--seeds", type=int, default=LEAST_SEEDS, metavar="N", help="of the data (default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default %(default)s")
    parser.add_argument("--quick", action="store_true", help="tiny models, one seed: shows that all of it works")
    options = parser.parse_args()
    if options.quick:
        options.seeds = 1
    options.build = options.build.resolve()
    if set(options.models) - set(MODELS):
        parser.error(f"--models: any of {', '.join(MODELS)}")
    return options


if __name__ == "__main__":
    main()
