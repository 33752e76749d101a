# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Draws what bench-compare-real measured: step time by budget, a panel for each model. `compare_real.py --picture FILE` calls it."""

import pathlib
from collections.abc import Mapping
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["svg.hashsalt"] = "spillway"  # the same bytes each time
from matplotlib import pyplot  # noqa: E402


def draw(models: list[dict[str, Any]], named: list[str], picture: pathlib.Path, titles: Mapping[str, str]) -> None:
    """`named`: policies with a color and a place in the legend, in its order; the others are grey."""
    figure, panels = pyplot.subplots(1, len(models), figsize=(9.6, 3.6), sharey=True, squeeze=False, layout="constrained")
    for axes, model in zip(panels[0], models, strict=True):
        for name in dict.fromkeys(row["policy"] for row in model["rows"]):
            points = sorted((row["share"], row["measured"]) for row in model["rows"] if row["policy"] == name and "measured" in row)
            if points:
                look: dict[str, Any] = {"color": "lightgray", "zorder": 1}
                if name in named:
                    look = {"color": f"C{named.index(name)}", "label": name, "zorder": 2}
                axes.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1, **look)
        axes.set_title(titles[model["model"]], fontsize=9)
        axes.set_xlabel("share of what can leave that stays", fontsize=8)
        axes.axhline(1, color="gray", linewidth=0.6, linestyle=":", zorder=0)
    panels[0][0].set_ylabel("measured step / plain's", fontsize=8)
    handles = {label: line for axes in panels[0] for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    shown = [name for name in named if name in handles]
    figure.legend([handles[name] for name in shown], shown, loc="outside lower center", ncols=len(shown), fontsize=8)
    figure.savefig(picture, metadata={"Date": None})
