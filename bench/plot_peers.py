# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Step time against peak memory, of plain training: python3 bench/plot_peers.py LINE PICTURE

LINE is a file with the last line of `make bench-peers`; README's picture is made of bench/results/peers.json."""

import argparse
import json
import pathlib
import sys

try:
    import matplotlib
except ModuleNotFoundError:
    sys.exit("matplotlib is missing; run this with the Python that `make bench-peers` sets up, .venv/torch-2.15.0/bin/python")

matplotlib.use("svg")
matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["svg.hashsalt"] = "spillway"  # the same bytes each time
from matplotlib import pyplot  # noqa: E402

NAMES = {"plain": "plain PyTorch", "checkpoint": "checkpoint, every block", "checkpoint_2nd": "checkpoint, every 2nd block",
         "sac": "selective checkpoint", "torch_remat": "torch_remat"}


OURS = {"spillway": ("Spillway", "tab:blue"), "recompute": ("Spillway, no drive,", "tab:green")}


def style_of(system: str) -> tuple[str, str]:
    """Label and colour."""
    kind, _, share = system.partition("_")
    if kind in OURS:
        name, colour = OURS[kind]
        return f"{name} at {share} %", colour
    return NAMES.get(system, system), "tab:gray"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("line", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    options = parser.parse_args()
    detail = json.loads(options.line.read_text())["detail"]
    figure, axes = pyplot.subplots(figsize=(7.2, 3.8))
    for system, found in detail["systems"].items():
        low, middle, high = found["ratio"]
        label, colour = style_of(system)
        is_ours = colour != "tab:gray"
        axes.errorbar(found["peak_over_plain"], middle, yerr=[[middle - low], [high - middle]], fmt="o" if is_ours else "s",
                      color=colour, elinewidth=0.6, capsize=2)
        axes.annotate(label, (found["peak_over_plain"], middle), xytext=(5, -11 if is_ours else 5),
                      textcoords="offset points", fontsize=8, color=colour if is_ours else "black")
    axes.set_xlim(0.15, 1.3)
    axes.set_xlabel("peak memory / plain's")
    axes.set_ylabel("step time / plain's")
    axes.axhline(1, color="lightgray", linewidth=0.8, zorder=0)
    machine = detail["machine"]
    axes.set_title(f"GPT, {detail['flags']['layers']} layers, CPU ({machine['cores']} cores, NVMe); median and range of "
                   f"{detail['bars']['rounds']['value']} rounds", fontsize=9)
    figure.tight_layout()
    figure.savefig(options.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
