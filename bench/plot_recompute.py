# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Step time against peak memory where tensors are made again, of plain training: python3 bench/plot_recompute.py LINE PICTURE

LINE is a file with the last line of `make bench-recompute-peers`; docs/benchmarks.md's picture is made of
bench/results/recompute_peers.json."""

import argparse
import json
import pathlib
import sys

try:
    import matplotlib
except ModuleNotFoundError:
    sys.exit("matplotlib is missing; run this with the Python that `make bench-recompute-peers` sets up, .venv/torch-2.15.0/bin/python")

matplotlib.use("svg")
matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["svg.hashsalt"] = "spillway"  # the same bytes each time
from matplotlib import pyplot  # noqa: E402

PEERS = {"plain": "plain", "checkpoint": "checkpoint", "checkpoint_2nd": "every 2nd", "sac": "selective", "torch_remat": "torch_remat"}
OURS = {"recompute_all": "recompute_all", "sqrt_checkpoint": "sqrt_checkpoint", "rotor": "rotor", "move": "move only", "str": "str",
        "pofo": "pofo", "auto": "auto"}


def draw(axes: "pyplot.Axes", model: str, rows: dict[str, dict]) -> None:
    for names, color, marker, below in ((PEERS, "tab:gray", "s", False), (OURS, "tab:blue", "o", True)):
        for side, label in names.items():
            row = rows.get(side)
            if row is None or row["peak_share"] is None or row["over_plain"] is None:
                continue
            axes.plot(row["peak_share"], row["over_plain"], marker, color=color, markersize=4)
            axes.annotate(label, (row["peak_share"], row["over_plain"]), xytext=(4, -8 if below else 3),
                          textcoords="offset points", fontsize=6, color=color)
    axes.axhline(1, color="lightgray", linewidth=0.8, zorder=0)
    axes.set_title(model, fontsize=8)
    axes.set_xlim(0, 1.15)
    axes.tick_params(labelsize=7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("line", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    options = parser.parse_args()
    rows = json.loads(options.line.read_text())["detail"]["rows"]
    figure, grid = pyplot.subplots(2, (len(rows) + 1) // 2, figsize=(7.6, 5.6), squeeze=False)
    for axes, (model, found) in zip(grid.flat, rows.items(), strict=False):
        draw(axes, model, found)
    for axes in grid[-1]:
        axes.set_xlabel("peak memory / plain's", fontsize=8)
    for axes in grid[:, 0]:
        axes.set_ylabel("step time / plain's", fontsize=8)
    figure.tight_layout()
    figure.savefig(options.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
