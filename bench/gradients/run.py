# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""One model of bench-gradients in a process of its own; prints one JSON line.

For each seed of the data: gradients of plain training, then in a session of each row's codecs. Weights, batch
and dropout are the same. After the forward all memory that can be had is taken and given back, so that every
saved tensor leaves the device and comes back as its codec gives it, however large the budget is.
"""

import argparse
import json
import math
import tempfile
from typing import Any

import models
import spillway
import torch

Gradients = dict[str, torch.Tensor]
SMALL = 1e-3  # of the norm of all gradients: a parameter with less is not looked at alone
ROOM = 1.25  # a budget over what the step takes with nothing moved: staging, holes


class Step:
    """One step, from the same weights each time."""

    def __init__(self, subject: models.Subject, folder: str) -> None:
        self.subject, self.folder = subject, folder
        torch.manual_seed(0)
        self.model = subject.make().train()
        self.start = {name: value.clone() for name, value in self.model.state_dict().items()}

    def begin(self) -> None:
        self.model.load_state_dict(self.start)  # batch norm's running statistics, too
        self.model.zero_grad()
        torch.manual_seed(1)  # dropout

    def gradients(self) -> Gradients:
        return {name: parameter.grad.clone() for name, parameter in self.model.named_parameters()}

    def plain(self, seed: int) -> Gradients:
        self.begin()
        self.subject.loss(self.model, self.subject.data(seed)).backward()
        return self.gradients()

    def peak_bytes(self) -> int:
        """What the step takes with nothing moved."""
        self.begin()
        session = spillway.session(self.model, device_budget="1TiB", nvme=self.folder)
        with session:
            loss = self.subject.loss(self.model, self.subject.data(0))
        loss.backward()
        peak = session.report()["device_peak_bytes"]
        session.close()
        return peak

    def encoded(self, seed: int, codec: str | None, budget: int) -> tuple[Gradients, dict[str, Any]]:
        self.begin()
        session = spillway.session(self.model, device_budget=budget, nvme=self.folder, policy="qpo", lossy=True,
                                   codec=codec)
        try:
            with session:
                loss = self.subject.loss(self.model, self.subject.data(seed))
                crowd_out(budget)
            loss.backward()
            return self.gradients(), json.loads(session.report().to_json())
        finally:
            session.close()


def crowd_out(budget: int) -> None:
    """Takes as much memory as can be had, for a moment: whatever can leave has left."""
    for part in range(100, 0, -1):
        try:
            torch.empty(budget * part // 100, dtype=torch.uint8)
            return
        except torch.OutOfMemoryError:
            continue


def norm(gradients: Gradients) -> float:
    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients.values()))


def difference(one: Gradients, plain: Gradients) -> dict[str, Any]:
    """Relative L2 errors: of all gradients together, and of the parameter that has the largest."""
    whole = norm(plain)
    apart = {name: one[name] - gradient for name, gradient in plain.items()}
    sizes = {name: norm({name: gradient}) for name, gradient in plain.items()}
    each = {name: norm({name: apart[name]}) / size for name, size in sizes.items() if size > SMALL * whole}
    worst = max(each, key=lambda name: each[name])
    return {"error": norm(apart) / whole, "worst": each[worst], "worst_name": worst}


def moved(report: dict[str, Any]) -> dict[str, Any]:
    """How much left: of what was packed, and of each class that was encoded what came back from its code."""
    classes = {row["tensor_class"]: {
        "values": row["values"], "raw_bytes": row["raw_bytes"], "went_raw": row["went_raw"],
        "tensor_error": float(f"{row['relative_l2_error']:.4g}"), "share": row["decoded_bytes"] / max(row["raw_bytes"], 1),
    } for row in report["codecs"] if row["values"] > 0}
    return {"left": report["freed_bytes"] / report["saved_bytes"], "saved_bytes": report["saved_bytes"],
            "classes": classes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=models.MODELS, required=True)
    parser.add_argument("--rows", type=json.loads, required=True, help='{"row": "codec of a session", ...}')
    parser.add_argument("--empty", required=True, help="the row that encodes nothing")
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--folder", required=True, help="that saved tensors wait in")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(json.dumps(measure(options, Step(models.MODELS[options.model](options.quick), folder))))


def measure(options: argparse.Namespace, step: Step) -> dict[str, Any]:
    budget = int(ROOM * step.peak_bytes())
    plain = [step.plain(seed) for seed in range(options.seeds + 1)]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in options.rows}
    for name, codec in options.rows.items():
        for seed in range(options.seeds):
            gradients, report = step.encoded(seed, codec, budget)
            rows[name].append(difference(gradients, plain[seed]) | moved(report))
            if name != options.empty and not rows[name][-1]["classes"]:
                break  # the model has no such class
    return {
        "rows": rows, "budget_bytes": budget, "parameters": sum(p.numel() for p in step.model.parameters()),
        "another_batch": [difference(plain[seed + 1], plain[seed]) for seed in range(options.seeds)],
    }


if __name__ == "__main__":
    main()
