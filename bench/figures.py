#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""bench-figures: the figures that systems' authors report, beside ours by simulation.

Each figure is a function below: what the authors report, on which model and machine, and the same asked of the program on
steps that it makes from dimensions (`spillway trace --model`) and data sheets. Where a card has no data sheet, another with
as much memory stands in: a Titan X for the K40c, a V100 for the P100. `holds` says whether the effect is there: the same
direction, and at least the stated share; `because` says why not. The largest batch of a policy is searched by doubling and
halving, to 3 %. Nothing runs and no clock is read. All together take a few minutes; `--only NAME` makes one figure.

Results go to --json FILE; what `--only` leaves out stays as it is there. Of that file `--table` prints Markdown, and `--page`
puts it into docs/systems.md; neither simulates. value = the share of figures that hold; it has no bar. Holds when
every figure could be made.
"""

import argparse
import json
import math
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import common
import known_steps
import page_tables
from known_steps import GIB, Program, Row, Step


class Figure(NamedTuple):
    theirs: str
    ours: str
    holds: bool
    because: str
    command: str  # what tells one of the numbers in a shell


NO_HOST = ("--host-budget", "1KiB")  # what only makes again would move what it cannot make
ALONE = ("sqrt_checkpoint", "recompute_all", "rotor")


def under_memory(program: Program, step: Step, policy: str) -> Row:
    """The policy in all of the card's memory; what only makes again has no host memory."""
    more = NO_HOST if policy in ALONE else ()
    return program.compare(step, [policy], [known_steps.memory_of(step.machine)], more).rows[0]


def largest_batch(program: Program, step: Step, policy: str) -> int:
    """To 3 %; 0: none. `keep_all` moves nothing."""
    return largest(lambda batch: runs(program, step._replace(batch=batch), policy))


def largest(is_good: Callable[[int], bool]) -> int:
    """Of the numbers from 1 on, good up to some one; to 3 %. 0: none is."""
    good, bad = 0, 1
    while is_good(bad):
        good, bad = bad, 2 * bad
    while bad - good > max(1, good // 32):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_good(middle) else (good, middle)
    return good


def runs(program: Program, step: Step, policy: str) -> bool:
    if policy == "keep_all":
        return program.compare(step, ["online"], []).peak_bytes <= known_steps.memory_of(step.machine)
    return under_memory(program, step, policy).runs


def batches(program: Program, step: Step, policies: list[str]) -> dict[str, int]:
    return {policy: largest_batch(program, step, policy) for policy in policies}


def told(numbers: dict[str, int]) -> str:
    return ", ".join(f"`{policy}` {number}" for policy, number in numbers.items())


def at_memory(step: Step, policy: str) -> str:
    return step.command(f"plan step.json {step.machine} --policy {policy}")


def vdnn(program: Program) -> Figure:
    step = Step("vgg16", "titan_x", 256)
    rows = {policy: under_memory(program, step, policy) for policy in ("vdnn_dyn", "vdnn_all", "vdnn_conv")}
    peak = program.compare(step, ["online"], []).peak_bytes
    parts = [f"`{name}` {row.slowdown:.2f}" if row.runs else f"`{name}` does not run" for name, row in rows.items()]
    dyn = rows["vdnn_dyn"]
    return Figure(
        "VGG-16, batch 256, 28 GB, on a Titan X of 12 GB: step 1.22 of one with all memory (18 % loss)",
        f"{peak / GIB:.1f} GiB; step over compute: {', '.join(parts)}", dyn.runs and dyn.slowdown <= 1.25,
        "a map of 3.1 GiB takes 0.26 s on the link, the layers beside it 0.02 to 0.25 s" if dyn.runs else dyn.refusal,
        at_memory(step, "vdnn_dyn"))


def vdnn_memory(program: Program) -> Figure:
    """Against the whole network's memory held for the whole step, which is what a static allocation does."""
    parts, least = [], 1.0
    for model in ("vgg16", "resnet50"):
        step = Step(model, "titan_x", 256)
        bare = program.compare(step, ["vdnn_all"], [known_steps.memory_of(step.machine)])
        [row] = bare.rows
        of_saved = 1 - row.average_saved_bytes / saved_bytes_of(program, step)
        of_all, of_peak = (1 - part / bare.peak_bytes for part in (row.average_bytes, row.peak_bytes))
        parts.append(f"{model} {of_saved:.0%}; with parameters, gradients and temporaries {of_all:.0%}, at the peak {of_peak:.0%}")
        least = min(least, of_saved)
    return Figure(
        "average memory over a step 89 to 95 % lower than the whole network's (AlexNet, OverFeat, GoogLeNet)",
        "saved tensors on average lower than all of them together, batch 256 in 12 GB, by: " + "; ".join(parts), least >= 0.89,
        "",
        Step("vgg16", "titan_x", 256).command("compare step.json titan_x --policies vdnn_all --budgets 12GiB --json all.json"))


def superneurons(program: Program) -> Figure:
    parts, holds = [], True
    for model, theirs in (("vgg16", 224), ("resnet50", 384), ("resnet152", 176)):
        found = batches(program, Step(model, "titan_x", 1), ["superneurons", "vdnn_all"])
        parts.append(f"{model}: {told(found)}")
        holds &= found["superneurons"] >= theirs
    return Figure(
        "largest batch on a K40c of 12 GB: VGG-16 224, ResNet-50 384, ResNet-152 176", "; ".join(parts), holds,
        "", at_memory(Step("resnet50", "titan_x", 384), "superneurons"))


SHALLOWEST, MOST_BLOCKS = 47, 1344  # of ResNet-152, with one block in its third stage; blocks more than that that are asked for


def largest_depth(program: Program, step: Step, policy: str) -> int:
    """Of a ResNet whose third stage grows, to 3 %; 0: none."""
    def at(blocks: int) -> Step:
        return step._replace(more=("--layers", str(SHALLOWEST + 3 * blocks)))

    blocks = largest(lambda blocks: blocks <= MOST_BLOCKS and runs(program, at(blocks), policy))
    return SHALLOWEST + 3 * blocks if blocks else 0


def superneurons_scale(program: Program) -> Figure:
    step = Step("resnet152", "titan_x", 16)
    found = {policy: largest_depth(program, step, policy) for policy in ("keep_all", "vdnn_all", "superneurons")}
    ratio = found["superneurons"] / found["keep_all"]
    deepest = step._replace(more=("--layers", str(found["superneurons"])))
    return Figure(
        "a ResNet of 1,920 layers, 3.24 times as deep as TensorFlow's (batch 16, 12 GB)",
        f"{ratio:.2f} times as deep ({told(found)} layers), step {under_memory(program, deepest, 'superneurons').slowdown:.2f}",
        ratio >= 3.24, "host memory and parameters with their states are the limit", at_memory(deepest, "superneurons"))


def capuchin(program: Program) -> Figure:
    step = Step("bert-large", "v100_16", 1)
    found = batches(program, step, ["keep_all", "sqrt_checkpoint", "vdnn_all", "capuchin"])
    of_plain, of_again = (found["capuchin"] / found[name] for name in ("keep_all", "sqrt_checkpoint"))
    return Figure(
        "BERT's batch 7 times TensorFlow's and 2.1 times checkpointing's (P100, 16 GB)",
        f"{of_plain:.1f} and {of_again:.2f} times ({told(found)})", of_plain >= 7 and of_again >= 2.1,
        "the logits of the loss, of every word, are the limit for all: 4.2 GiB at batch 72, and their gradient as much",
        at_memory(step._replace(batch=found["capuchin"]), "capuchin"))


def capuchin_pictures(program: Program) -> Figure:
    found = batches(program, Step("resnet50", "v100_16", 1), ["keep_all", "vdnn_all", "capuchin"])
    ratio = found["capuchin"] / found["keep_all"]
    at = Step("resnet50", "v100_16", found["capuchin"])
    return Figure(
        "ResNet-50's batch 5.3 times TensorFlow's, 190 to 1014 (P100, 16 GB)",
        f"{ratio:.1f} times ({told(found)}), there at a step of {under_memory(program, at, 'capuchin').slowdown:.2f}",
        ratio >= 5.3, "61 GiB of host memory are full", at_memory(at, "capuchin"))


def capuchin_speed(program: Program) -> Figure:
    step = Step("resnet50", "v100_16", 380)  # twice what fits
    rows = {name: under_memory(program, step, name) for name in ("capuchin", "vdnn_all", "sqrt_checkpoint")}
    faster = {name: rows[name].slowdown / rows["capuchin"].slowdown - 1 for name in ("vdnn_all", "sqrt_checkpoint")}
    return Figure(
        "up to 286 % faster than vDNN and 55 % than checkpointing at the same batch",
        f"ResNet-50, batch 380: {faster['vdnn_all']:+.0%} and {faster['sqrt_checkpoint']:+.0%}",
        faster["vdnn_all"] > 0.5 and faster["sqrt_checkpoint"] > 0,
        "", at_memory(step, "capuchin"))


def sublinear(program: Program) -> Figure:
    step = Step("resnet152", "v100_16", 64)
    bare = program.compare(step, ["sqrt_checkpoint"], [4 * GIB], NO_HOST)
    row = bare.rows[0]
    return Figure(
        "a ResNet of 1,000 layers in 7 GB in place of 48, 30 % more time",
        f"ResNet-152, batch 64: {row.peak_bytes / GIB:.1f} GiB in place of {bare.peak_bytes / GIB:.1f}, {row.slowdown - 1:.0%} more time",
        row.runs and row.slowdown <= 1.35 and 2 * row.peak_bytes <= bare.peak_bytes, row.refusal,
        step.command("compare step.json v100_16 --policies sqrt_checkpoint --budgets 4GiB --host-budget 1KiB"))


def delta(program: Program) -> Figure:
    found = batches(program, Step("resnet50", "v100_32", 1), ["keep_all", "delta"])
    ratio = found["delta"] / found["keep_all"]
    steps = {batch: under_memory(program, Step("resnet50", "v100_32", batch), "delta").slowdown
             for batch in (2 * found["keep_all"], found["delta"])}
    return Figure(
        "ResNet-50's batch 2.04 times, ResNet-101's 2.25 times",
        f"ResNet-50: {ratio:.2f} times ({told(found)}); step " + ", ".join(f"{time:.2f} at {batch}" for batch, time in steps.items()),
        ratio >= 2.04, "", Step("resnet50", "v100_32", found["delta"]).command(
            "compare step.json v100_32 --policies delta --budgets 32GiB"))


def delta_memory(program: Program) -> Figure:
    parts, least = [], 1.0
    for model, batch in (("resnet50", 128), ("gpt2-345m", 8)):
        bare = program.fit(Step(model, "v100_32", batch), "delta")
        rows = [row for row in bare.rows if row.runs and row.slowdown <= 1.5]
        saved = 1 - min(row.peak_bytes for row in rows) / bare.peak_bytes
        least = min(least, saved)
        parts.append(f"{saved:.0%} ({model})")
    return Figure(
        "40 to 70 % of memory saved", f"at a step of at most 1.5 of compute {', '.join(parts)}", least >= 0.4,
        "",
        Step("resnet50", "v100_32", 128).command("fit step.json v100_32 --policy delta"))


def tba(program: Program) -> Figure:
    theirs = "a100_40_p5800x4"
    found = {}
    for machine in (theirs, "gh200"):
        step = Step("llama2-7b", machine, 2, "float16", ("--optimizer", "sgd"))
        bare = program.compare(step, ["tba"], [1 << 50])
        [row] = bare.rows
        found[machine] = activations_saved(program, step, bare.peak_bytes - row.peak_bytes), row.slowdown
    saved, slowdown = found[theirs]
    return Figure(
        "peak of activations 28 to 47 % lower, step 1.00 to 1.03 (width 8,192 to 16,384; A100 40 GB, four P5800X)",
        "LLaMA-2-7B, batch 2: " + "; ".join(f"{name}: {share:.0%} lower, step {time:.2f}" for name, (share, time) in found.items()),
        saved >= 0.28 and slowdown <= 1.03,
        "at width 4,096 backward needs 30 GB/s, the link has 25, and the cut looks at the whole step; where the link is quicker it hides",
        Step("llama2-7b", theirs, 2, "float16", ("--optimizer", "sgd")).command(
            f"compare step.json {theirs} --policies tba --budgets 1TiB"))


def tba_recompute(program: Program) -> Figure:
    parts, holds = [], False
    for model, machine, batch in (("gpt2-345m", "a100_40", 32), ("gpt2-345m", "gh200", 48), ("bert-large", "a100_40_p5800x4", 64)):
        step = Step(model, machine, batch, "bfloat16")
        bare = program.compare(step, ["online"], [])
        budget = bare.floor_bytes + (bare.peak_bytes - bare.floor_bytes) // 4
        mixed, moved, again = program.compare(step, ["tba_recompute", "tba", "recompute_all"], [budget]).rows
        holds |= mixed.runs and mixed.slowdown < min(moved.slowdown if moved.runs else math.inf, again.slowdown if again.runs else math.inf)
        parts.append(f"{model}, {machine}: " + ", ".join(
            f"`{row.policy}` " + (f"{row.slowdown:.2f}" if row.runs else "does not run") for row in (mixed, moved, again)))
    return Figure(
        "future work: the first modules moved, the middle made again, the last kept, quicker than each alone",
        "under a quarter of what can leave: " + "; ".join(parts), holds,
        "so small a budget lets nothing that moves hide, and making all again costs less; with more memory `tba` makes nothing again",
        Step("gpt2-345m", "a100_40", 32, "bfloat16").command("compare step.json a100_40 --policies tba_recompute tba recompute_all"))


def activations_saved(program: Program, step: Step, saved_bytes: int) -> float:
    """As a share of all saved tensors."""
    return saved_bytes / saved_bytes_of(program, step)


def saved_bytes_of(program: Program, step: Step) -> int:
    values = json.loads(program.trace(step).read_text(encoding="utf-8"))["values"]
    return sum(int(value["size_bytes"]) for value in values)


def transformer_engine(program: Program) -> Figure:
    step = Step("gpt2-345m", "gh200", 8, "bfloat16")
    layers = (6, 12, 18)
    rows = program.compare(step, [f"te:layers={n}" for n in layers], [1 << 50]).rows
    falls = [(one.peak_bytes - other.peak_bytes) / GIB for one, other in zip(rows, rows[1:], strict=False)]
    return Figure(
        "at most L - N sets of activations are resident",
        f"GPT-2 345M of 24 layers, N from 6 to 12 to 18: peak lower by {falls[0]:.2f} and {falls[1]:.2f} GiB; step "
        + ", ".join(f"{row.slowdown:.2f}" for row in rows),
        min(falls) > 0 and abs(falls[0] - falls[1]) <= 0.02 * falls[0],
        "", step.command("compare step.json gh200 --policies te:layers=6 te:layers=12 te:layers=18 --budgets 1TiB"))


def optimal_offload(program: Program) -> Figure:
    parts, worst = [], 0.0
    for model, machine, batch in (("vgg16", "titan_x", 256), ("resnet50", "titan_x", 256), ("gpt2-345m", "a100_40", 8)):
        step = Step(model, machine, batch)
        bare = program.compare(step, ["online"], [])
        budget = (bare.floor_bytes + bare.peak_bytes) // 2
        plan = json.loads(program.plan(step, "optimal_offload", budget))
        bound, time = plan["bound_step_ns"], plan["predicted_step_ns"]
        if bound:
            worst = max(worst, time / bound - 1)
        parts.append(f"{model} {time / bound - 1:.1%} above" if bound else f"{model}: no bound, not a chain")
    return Figure(
        "none (only the abstract was available); asked: within 1 % of the closed form, the bound for tensors that may be cut", "; ".join(parts), worst <= 0.01 and "no bound" not in " ".join(parts),
        "VGG-16's tensors of up to 3.1 GiB move as a whole; the closed form is of chains, which the others are not",
        Step("vgg16", "titan_x", 256).command("plan step.json titan_x --policy optimal_offload --device-budget 15GiB"))


def pofo(program: Program) -> Figure:
    parts, least = [], 1.0
    for model, batch in (("gpt2-345m", 8), ("bert-large", 16), ("resnet50", 256)):
        step = Step(model, "v100_16", batch)
        bare = program.compare(step, ["online"], [])
        fewer = []
        for parts_of in (2, 4):
            budget = bare.floor_bytes + (bare.peak_bytes - bare.floor_bytes) // parts_of
            rotor, both = program.compare(step, ["rotor", "pofo"], [budget]).rows
            fewer.append(1 - (both.slowdown - 1) / (rotor.slowdown - 1))
        least = min(least, *fewer)
        parts.append(f"{model} {fewer[0]:.0%} and {fewer[1]:.0%}")
    return Figure(
        "a third less overhead than without transfers (`rotor`)", "under a half and a quarter of what can leave: " + ", ".join(parts),
        least >= 0.33, "on ResNet-50 with half its memory `rotor` has little to make again, and the link hides few of such large maps",
        Step("gpt2-345m", "v100_16", 8).command("compare step.json v100_16 --policies rotor pofo"))


def str_over_hybrids(program: Program) -> Figure:
    gains: dict[str, float] = {}
    over_alone: list[float] = []
    for model, batch in (("resnet50", 256), ("resnet50", 384), ("resnet50", 512), ("resnet152", 128), ("resnet152", 256)):
        step = Step(model, "v100_16", batch)
        names = ["str", "superneurons", "capuchin", "capuchin:queue=0"]
        mine, superneurons, queue, alone = (
            row.slowdown if row.runs else math.inf for row in program.compare(step, names, [known_steps.memory_of(step.machine)]).rows)
        gains[f"{model}, batch {batch}"] = min(superneurons, queue) / mine - 1
        over_alone.append(min(superneurons, alone) / mine - 1)
    return Figure(
        "up to 28 % more throughput than the best hybrid before (ResNets)",
        "over the better of `capuchin` and `superneurons`: " + "; ".join(f"{name} {gain:+.0%}" for name, gain in gains.items())
        + f"; with `capuchin:queue=0` {min(over_alone):+.0%} to {max(over_alone):+.0%}",
        max(gains.values()) >= 0.28, "`capuchin` chooses its swaps with the link as one queue; as if each were alone, the lead is there",
        at_memory(Step("resnet50", "v100_16", 384), "str"))


def swapadvisor(program: Program) -> Figure:
    step, policy = Step("resnet152", "v100_16", 1), "swapadvisor:generations=1,population=6"
    batch = largest_batch(program, step, policy)
    at = step._replace(batch=batch)
    times = program.compare(at, ["online"], []).peak_bytes / known_steps.memory_of(step.machine)
    share = 1 / under_memory(program, at, policy).slowdown
    return Figure(
        "models of up to 12 times a GPU's memory, at 53 to 99 % of the rate with all memory (V100, 16 GB)",
        f"ResNet-152, batch {batch}: {times:.1f} times, at {share:.0%}", times >= 12 and share >= 0.53,
        "61 GiB of host memory are 3.8 times the card's, and the link is the limit for swaps alone; no other order of operators, parameters stay",
        at_memory(at, policy))


RAW = ("online", "offload_all", "largest_first", "optimal_offload", "capuchin", "tba", "te")
QPO_STEPS = (("gpt2-345m", "a100_40", 16, "float32"), ("gpt2-345m", "rtx3090", 8, "float32"), ("gpt2-345m", "a100_40", 32, "bfloat16"),
             ("gpt2-345m", "rtx3090", 16, "bfloat16"), ("llama2-7b", "a100_80", 4, "bfloat16"))


def qpo(program: Program) -> Figure:
    parts, gains = [], []
    for model, machine, batch, dtype in QPO_STEPS:
        step = Step(model, machine, batch, dtype, ("--optimizer", "sgd") if model == "llama2-7b" else ())
        bare = program.compare(step, ["online"], [])
        budget = bare.floor_bytes + (bare.peak_bytes - bare.floor_bytes) // 4
        mine, *others = program.compare(step, ["qpo", *RAW], [budget]).rows
        best = min((row for row in others if row.runs and not row.recomputed_bytes), key=lambda row: row.slowdown)
        gains.append(best.slowdown / mine.slowdown if mine.runs else 0.0)
        parts.append(f"{model}, {dtype}, {machine}: {gains[-1]:.2f} (`{best.policy}` {best.slowdown:.2f}, `qpo` {mine.slowdown:.2f})")
    return Figure(
        "up to 1.15 times as fast as offloading as it is (GPT-2 and LLaMA-2, A100 and RTX 3090; near the least memory)",
        "over the quickest of those that move alone, under a quarter of what can leave: " + "; ".join(parts), max(gains) >= 1.15, "",
        Step("llama2-7b", "a100_80", 4, "bfloat16", ("--optimizer", "sgd")).command(
            "compare step.json a100_80 --policies qpo optimal_offload offload_all"))


FIGURES: dict[str, Callable[[Program], Figure]] = {
    "vdnn": vdnn, "vdnn_memory": vdnn_memory, "superneurons": superneurons, "superneurons_scale": superneurons_scale,
    "capuchin": capuchin, "capuchin_pictures": capuchin_pictures, "capuchin_speed": capuchin_speed, "sublinear": sublinear,
    "delta": delta, "delta_memory": delta_memory, "tba": tba, "tba_recompute": tba_recompute, "te": transformer_engine, "optimal_offload": optimal_offload,
    "pofo": pofo, "str": str_over_hybrids, "swapadvisor": swapadvisor, "qpo": qpo,
}


RESULTS = pathlib.Path(common.ROOT) / "bench" / "results" / "figures.json"
PAGE = page_tables.DOCS / "systems.md"


def main() -> None:
    options = parse_arguments()
    if options.table or options.page:
        text = table(read(options.json))
        if options.page:
            page_tables.put(PAGE, "figures", text)
        else:
            print(text)
        return
    names = options.only or (["te"] if options.quick else list(FIGURES))
    figures: dict[str, Figure] = {}
    with tempfile.TemporaryDirectory() as folder:
        program = Program(options.build, pathlib.Path(folder))
        for name in names:
            figures[name] = FIGURES[name](program)
            common.progress(f"{name}: {figures[name].ours}: {verdict(figures[name])}")
    if not options.quick:
        write(options.json, figures)
    share = sum(figure.holds for figure in figures.values()) / len(figures)
    common.emit("figures", round(share, 4), "share", None, True, {
        "figures": {name: figure._asdict() for name, figure in figures.items()}, "machine": common.machine()})


def read(path: pathlib.Path) -> dict[str, Figure]:
    """In the order of FIGURES; those that the file has."""
    if not path.exists():
        return {}
    told = {name: Figure(**{field: each[field] for field in Figure._fields})
            for name, each in json.loads(path.read_text(encoding="utf-8")).items()}
    return {name: told[name] for name in FIGURES if name in told}


def write(path: pathlib.Path, figures: dict[str, Figure]) -> None:
    """Each with the commit that told it; others that the file has stay, but for those that are none any more."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    commit = common.machine()["commit"]
    known |= {name: {**figure._asdict(), "commit": commit} for name, figure in figures.items()}
    text = json.dumps({name: known[name] for name in FIGURES if name in known}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def verdict(figure: Figure) -> str:
    return "holds" if figure.holds else f"does not: {figure.because}"


def table(figures: dict[str, Figure]) -> str:
    """Markdown: a row for each figure; then what tells it in a shell."""
    lines = ["| figure | theirs | ours, by simulation | |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {figure.theirs} | {figure.ours} | {verdict(figure)} |" for name, figure in figures.items()]
    commands = [f"{figure.command}  # {name}" for name, figure in figures.items()]
    return "\n".join([*lines, "", "```sh", *commands, "```"])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(common.ROOT) / "build" / "torch")
    parser.add_argument("--only", nargs="+", choices=list(FIGURES), metavar="NAME", help=", ".join(FIGURES))
    parser.add_argument("--json", type=pathlib.Path, default=RESULTS, help="where the results go [bench/results/figures.json]")
    parser.add_argument("--table", action="store_true", help="Markdown of the file of results")
    parser.add_argument("--page", action="store_true", help="puts that into docs/systems.md")
    parser.add_argument("--quick", action="store_true", help="one figure: for tests")
    return parser.parse_args()


if __name__ == "__main__":
    main()
