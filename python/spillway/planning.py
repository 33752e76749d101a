# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a step would cost under budgets and policies, from one recorded step and this machine's rates: no trial and error."""

import contextlib
import inspect
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from . import _options
from .errors import Error, OptionError
from .session import Session, _call, _device_bytes, _device_of, _rank

_AS_MUCH_AS_IT_TAKES = "1TiB"
_STEPS_TO_RECORD = 3  # one warms up; the trace of the next is whole when another begins
_TURNS = 3  # of what is measured for real

Step = Callable[[], torch.Tensor | None]


def _look(number: int) -> dict[str, Any]:
    """Of a line in a picture; there are 40, no two alike."""
    return {"color": f"C{number % 10}", "marker": "osD^v<>P"[number % 8], "linestyle": ["-", "--", ":", "-."][number // 10 % 4]}


class Comparison:
    """Step times as the simulator foretells them, for policies and device budgets.

    `print` shows the table; `rows` has a mapping for each policy and budget (`policy`, `device_bytes`, `refusal`, `step_ns`,
    `peak_bytes`, `average_bytes` and of these `average_saved_bytes`, `stored_bytes`, `loaded_bytes`, `recomputed_bytes`, `stall_ns`,
    `bound_step_ns`, `lossy`); `refusal` is "" where it runs, `bound_step_ns` is a proven lower bound of the step that comes with some
    policies' plans, or 0. After `compare(real=True)` a row also has `measured_step_ns`, `measured_peak_bytes` and `measured_refusal`.
    """

    def __init__(self, table: str, text: str, note: str = "") -> None:
        self._table, self._text = table + note, text
        fields = json.loads(text)
        self.rows: list[dict[str, Any]] = fields["rows"]
        self.compute_ns: int = fields["compute_ns"]  # of the step with everything on the device
        self.peak_bytes: int = fields["peak_bytes"]  # of the device then
        self.floor_bytes: int = fields["floor_bytes"]  # the smallest budget of the policy of `fit`; of `compare`, of `online`

    def to_json(self) -> str:
        return json.dumps({**json.loads(self._text), "rows": self.rows}, indent=2) + "\n"

    def __str__(self) -> str:
        measured = [row for row in self.rows if "measured_step_ns" in row]
        if not measured:
            return self._table
        lines = [f"{row['policy']:<18} {row['device_bytes'] / 2**20:10.1f} MiB  " + (
            f"does not run: {row['measured_refusal']}" if row["measured_refusal"] else
            f"{row['measured_step_ns'] / 1e9:9.3f} s (foretold {row['step_ns'] / 1e9:.3f} s)  peak "
            f"{row['measured_peak_bytes'] / 2**20:.1f} MiB (foretold {row['peak_bytes'] / 2**20:.1f} MiB)") for row in measured]
        return "\n".join([self._table.rstrip("\n"), "", "measured here", *lines, ""])

    __repr__ = __str__

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes a picture (.svg, .png, .pdf: step time by budget, a line for each policy, and one for what was measured), or the
        numbers (.json).

        A picture needs matplotlib.
        """
        path = pathlib.Path(_options.utf8_path("file", os.fspath(file)))
        if path.suffix == ".json":
            path.write_text(self.to_json())
            return
        if path.suffix not in (".svg", ".png", ".pdf"):
            raise OptionError("file", f"'{path.name}' does not end with .svg, .png, .pdf or .json")
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise OptionError("file", "a picture needs matplotlib: pip install matplotlib; a .json needs nothing") from None
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        unit, size = ("GiB", 2**30) if self.peak_bytes >= 2**30 else ("MiB", 2**20)
        for number, policy in enumerate(dict.fromkeys(row["policy"] for row in self.rows)):
            own = sorted((row for row in self.rows if row["policy"] == policy and not row["refusal"]), key=lambda row: row["device_bytes"])
            name = policy + (" (lossy)" if own and own[0].get("lossy") else "")
            lines: tuple[tuple[str, dict[str, Any]], ...] = (("step_ns", {"label": name}), ("measured_step_ns", {"linewidth": 3, "alpha": 0.4}))
            for times, look in lines:
                points = [(row["device_bytes"] / size, row[times] / self.compute_ns) for row in own if row.get(times)]
                if points:
                    axes.plot(*zip(*points), **(_look(number) | {"markersize": 4} | look))
        axes.axvline(self.peak_bytes / size, color="grey", linestyle=":", label="peak with nothing moved")
        is_measured = any(row.get("measured_step_ns") for row in self.rows)
        axes.set(xlabel=f"device budget, {unit}", ylabel="step time / compute, foretold" + (" (wide and pale: measured)" if is_measured else ""))
        figure.legend(fontsize="small", loc="outside right upper")
        axes.grid(alpha=0.3)
        figure.savefig(path)


def _forget_gradients(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = None


@contextlib.contextmanager
def _untouched(model: torch.nn.Module) -> Iterator[None]:
    """No parameter has a gradient; afterwards gradients, buffers and torch's random numbers are what they were."""
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    buffers = [(module, name, buffer, buffer.detach().clone()) for module in model.modules()
               for name, buffer in module.named_buffers(recurse=False)]
    device = _device_of(model)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            _forget_gradients(model)
            yield
        finally:
            for parameter, gradient in gradients:
                parameter.grad = gradient
            with torch.no_grad():
                for module, name, buffer, before in buffers:
                    buffer.copy_(before)
                    setattr(module, name, buffer)  # the step may have assigned another


def _run(session: Session, model: torch.nn.Module, step: Step) -> float:
    """One step. Returns its seconds."""
    begin = time.perf_counter()
    with session:
        loss = step()
    if isinstance(loss, torch.Tensor) and loss.grad_fn is not None:
        if loss.numel() != 1:
            raise OptionError("step", f"expected a loss of one number, got a tensor of {list(loss.shape)}; take its mean or sum")
        loss.backward()
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if trained and all(parameter.grad is None for parameter in trained):
            raise OptionError("model", "none of its parameters has a gradient after the step; give the model that `step` trains")
    elif loss is not None or all(parameter.grad is None for parameter in model.parameters()):
        what = "a tensor that needs no gradient" if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise OptionError("step", "expected it to return the loss, or to run its backward and return None; it returned "
                                  + ("None and no parameter has a gradient" if loss is None else what))
    del loss
    if _device_of(model).type == "cuda":
        torch.cuda.synchronize(_device_of(model))
    seconds = time.perf_counter() - begin
    _forget_gradients(model)
    return seconds


def _record(model: torch.nn.Module, step: Step, file: str, device_budget: int | str | None, places: Mapping[str, Any]) -> None:
    """A trace of the second of some steps, which has the recipes of whole layers, too. `places` are used only under a budget."""
    if not callable(step):
        raise OptionError("step", f"expected a function that returns the loss, got {type(step).__name__}")
    if device_budget is None:  # what moves gets host memory on a GPU, and online records recipes of all kinds only without a place
        policy = "online" if _device_of(model).type == "cpu" else "rotor"
        session = Session(model, device_budget=_AS_MUCH_AS_IT_TAKES, policy=policy)
    else:  # of what moves at run time, delta alone records recipes of all kinds
        session = Session(model, device_budget=device_budget, policy="delta", recompute="on", **places)
    try:
        with _untouched(model):
            session.trace(file)
            for _ in range(_STEPS_TO_RECORD):
                _run(session, model, step)
    except BaseException:
        session._has_warned.add("nothing")  # the error says why
        for _ in range(_STEPS_TO_RECORD - 1):  # ends the trace, or what ends the session, maybe later, would say that there is none
            with contextlib.suppress(Error), session:
                pass
        raise
    finally:
        session.close()


def _of_optimizer(model: torch.nn.Module) -> str:
    """What no recorded step shows, since no optimizer runs in it."""
    trained = sum(each.numel() * each.element_size() for each in model.parameters() if each.requires_grad)
    return (f"note: an optimizer's state is not in these sizes; add it to the budget (Adam's first step makes "
            f"{2 * trained / 2**20:.1f} MiB), or let it leave: spillway.session(..., states='optimizer')\n")


def _of_waits(device_budget: int | str | None) -> str:
    return "" if device_budget is None else (f"note: recorded under a device budget of {device_budget}: the times are those of a step that "
                                             "may wait\n")


def _measure(model: torch.nn.Module, step: Step, row: dict[str, Any], places: Mapping[str, Any]) -> list[float]:
    """Trains for some steps under the row's policy and budget. The seconds of the second one under the plan; none: it does
    not run."""
    try:
        session = Session(model, device_budget=row["device_bytes"], policy=row["policy"], lossy=row["lossy"], **places)
    except Error as refusal:
        row["measured_refusal"] = str(refusal)
        return []
    try:
        with _untouched(model):
            seconds = [_run(session, model, step) for _ in range(_STEPS_TO_RECORD + 2)][_STEPS_TO_RECORD + 1:]
        report = session.report()
        plan = report["plan"] or {}
        row["measured_refusal"] = plan.get("refusal", "")
        row["measured_peak_bytes"] = max(row["measured_peak_bytes"], plan.get("peak_bytes") or report["device_peak_bytes"])
        return seconds
    except torch.OutOfMemoryError as refusal:
        row["measured_refusal"] = str(refusal).splitlines()[0]
        return []
    finally:
        session.close()


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _measure_in_turn(model: torch.nn.Module, step: Step, rows: list[dict[str, Any]], places: Mapping[str, Any]) -> None:
    """All rows, some times: what else the machine does meanwhile slows all of them. One session is open at a time, since each
    holds its places."""
    seconds: list[list[float]] = [[] for _ in rows]
    for row in rows:
        row.update(measured_step_ns=0, measured_peak_bytes=0, measured_refusal="")
    ahead, done, begin = [*range(len(rows))] * _TURNS, 0, time.perf_counter()
    while ahead:
        number, row = ahead[0], rows[ahead[0]]
        left = f", about {_duration((time.perf_counter() - begin) / done * len(ahead))} left" if done else ""
        print(f"spillway: {done + 1} of {done + len(ahead)}{left}: {row['policy']} under {row['device_bytes'] / 2**20:.1f} MiB",
              file=sys.stderr)
        took = _measure(model, step, row, places)
        seconds[number] += took
        ahead, done = [each for each in ahead[1:] if took or each != number], done + 1  # what does not run is not tried again
    for row, each in zip(rows, seconds, strict=True):
        row["measured_step_ns"] = int(1e9 * statistics.median(each)) if len(each) == _TURNS else 0


@_options.refusing_unknown
def probe(
    model: torch.nn.Module | None = None,
    *,
    host_budget: int | str | None = None,
    nvme: str | os.PathLike[str] | None = None,
    nvme_budget: int | str | None = None,
    nvme_allow_tmpfs: bool = False,
    nvme_rate: int | str | None = None,
) -> dict[str, Any]:
    """Measures the places where saved tensors may wait: bytes a second each way, alone and both at once, and latencies.

    And how fast the device multiplies in float32, as torch is set now, and reads and writes its memory; a GPU also in bfloat16.
    And which share of that it lacks while bytes move, and on the CPU how fast it encodes. Takes about a second for each place.
    The options are those of `spillway.session`. The device's capacity is its memory: of the CPU this machine's, or its cgroup's limit.

    Args:
        model: Of the device that it is on; without one, of the CPU.

    Returns:
        The machine, as docs/formats/machine.md describes it. `json.dump` makes a file of it for `spillway compare`.
    """
    defaults = {name: parameter.default for name, parameter in inspect.signature(Session).parameters.items()}
    device = torch.device("cpu") if model is None else _device_of(model)
    device_bytes = _device_bytes(device)
    is_known = device.type == "cpu" or device_bytes > 0
    asked = {"device_budget": "100%" if is_known else _AS_MUCH_AS_IT_TAKES, "host_budget": host_budget, "nvme": nvme,
             "nvme_budget": nvme_budget, "nvme_allow_tmpfs": nvme_allow_tmpfs, "nvme_rate": nvme_rate}
    options = _options.read({**defaults, **asked})
    return json.loads(_call(torch.ops.spillway.probe, _options.to_json(options, device, _rank()), device_bytes))


_machines: dict[tuple[object, ...], dict[str, Any]] = {}


def _probed(model: torch.nn.Module, places: Mapping[str, Any]) -> dict[str, Any]:
    """Measured once in a process, so that `fit` and `compare` speak of one machine, and the second of them starts at once.

    A folder that is gone since is asked again, which refuses it.
    """
    key = (str(_device_of(model)), torch.get_num_threads(), torch.get_float32_matmul_precision(), *map(str, places.values()))
    is_there = places["nvme"] is None or os.path.isdir(places["nvme"])
    if key not in _machines or not is_there:
        _machines[key] = probe(model, **places)
    return _machines[key]


@contextlib.contextmanager
def _files(model: torch.nn.Module, step: Step, machine: Mapping[str, Any] | str | os.PathLike[str] | None,
           device_budget: int | str | None, places: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Of the recorded step and of the machine."""
    if machine is not None and any(place is not None and place is not False for place in places.values()):
        raise OptionError("machine", "it says what places there are; leave nvme and the budgets out, or the machine")
    with tempfile.TemporaryDirectory() as folder:
        if machine is None or isinstance(machine, Mapping):
            described = _probed(model, places) if machine is None else machine
            machine = os.path.join(folder, "machine.json")
            pathlib.Path(machine).write_text(json.dumps(described))
        trace = os.path.join(folder, "trace.json")
        _record(model, step, trace, device_budget, places)
        yield trace, _options.utf8_path("machine", os.fspath(machine))


def _foretell(function: Callable[..., list[str]], trace: str, machine: str, *asked: Any) -> list[str]:
    """Table and JSON. A refusal begins with the option that it is of, after the file of the machine if that is wrong."""
    try:
        return _call(function, trace, machine, *asked)
    except Error as refusal:
        option, _, why = str(refusal).removeprefix(f"{machine}: ").partition(": ")
        if option not in ("policy", "budgets", "machine"):
            raise
        if option == "policy" and function is torch.ops.spillway.compare:
            option = "policies"
        raise OptionError(option, why) from None


@_options.refusing_unknown
def fit(
    model: torch.nn.Module,
    step: Step,
    *,
    policy: str = "online",
    machine: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    device_budget: int | str | None = None,
    host_budget: int | str | None = None,
    nvme: str | os.PathLike[str] | None = None,
    nvme_budget: int | str | None = None,
    nvme_allow_tmpfs: bool = False,
    nvme_rate: int | str | None = None,
) -> Comparison:
    """Answers "which budget?": the step's time under budgets from its peak down to the smallest that works.

    Runs a few steps, with everything on the device unless there is a `device_budget`, and no optimizer: gradients, buffers and random
    numbers are put back.

    Args:
        model: The model; `step` trains it.
        step: Runs a forward and returns its loss, whose backward is run here; or runs both and returns None. Not in a
            session of its own.
        policy: As for `spillway.session`.
        machine: What `probe` returns, or a file of it; without one it is measured, once in a process.
        device_budget: Records the steps under it, for a model whose step does not fit in memory: saved tensors move to the places
            below, or are made again. All times are then those of a step that waits, so that they are somewhat too long.
        host_budget, nvme, nvme_budget, nvme_allow_tmpfs, nvme_rate: As for `spillway.session`; not with `machine`.

    Raises:
        torch.OutOfMemoryError: Of the steps that are recorded, under `device_budget` or in the memory there is.
    """
    policy = _options.as_name("policy", policy)
    places = {"host_budget": host_budget, "nvme": nvme, "nvme_budget": nvme_budget, "nvme_allow_tmpfs": nvme_allow_tmpfs,
              "nvme_rate": nvme_rate}
    with _files(model, step, machine, device_budget, places) as (trace, described):
        table, text = _foretell(torch.ops.spillway.fit, trace, described, policy)
        return Comparison(table, text, _of_waits(device_budget) + _of_optimizer(model))


@_options.refusing_unknown
def compare(
    model: torch.nn.Module,
    step: Step,
    *,
    policies: Iterable[str] = (),
    budgets: Iterable[int | str] = (),
    machine: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    device_budget: int | str | None = None,
    host_budget: int | str | None = None,
    nvme: str | os.PathLike[str] | None = None,
    nvme_budget: int | str | None = None,
    nvme_allow_tmpfs: bool = False,
    nvme_rate: int | str | None = None,
    real: bool = False,
) -> Comparison:
    """Answers "which policy?": each one's step time under each device budget, simulated on all cores.

    Runs a few steps, as `fit` does; with `real` some for each row, too.

    Args:
        model, step, machine, device_budget, host_budget, nvme, nvme_budget, nvme_allow_tmpfs, nvme_rate: As for `fit`.
        policies: Names with their parameters ("te:layers=4"); without any, all that make plans, "online" and "delta".
        budgets: Device budgets; without any, a quarter, a half and three quarters of the way from the smallest that works
            to the peak.
        real: Also trains under each policy and budget that can run, and says what it took: all in turn, three times. No
            optimizer runs. Not with `machine`, which may be another one.
    """
    if real and machine is not None:
        raise OptionError("real", "what is measured is measured here; leave machine out")
    if isinstance(policies, str) or isinstance(budgets, (str, int)):
        raise OptionError("policies" if isinstance(policies, str) else "budgets", "expected a list")
    policies, budgets = [_options.as_name("policies", each) for each in policies], list(budgets)
    if any(each in (0, "0") for each in budgets):
        raise OptionError("budgets", "a device budget of 0 holds nothing")
    places = {"host_budget": host_budget, "nvme": nvme, "nvme_budget": nvme_budget, "nvme_allow_tmpfs": nvme_allow_tmpfs,
              "nvme_rate": nvme_rate}
    with _files(model, step, machine, device_budget, places) as (trace, described):
        table, text = _foretell(torch.ops.spillway.compare, trace, described, policies, [_options.utf8(str(each)) for each in budgets])
    comparison = Comparison(table, text, _of_waits(device_budget))
    if real:
        _measure_in_turn(model, step, [row for row in comparison.rows if not row["refusal"]], places)
    return comparison
