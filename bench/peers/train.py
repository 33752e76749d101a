# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""One configuration of bench-peers in a process of its own: trains some steps, prints one JSON line.

AdamW, with torch's defaults: what most people train with, and two more values a weight that count in the
peak of every system and in Spillway's budget.
"""

import argparse
import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable
from typing import Any

import model
import systems
import torch


class Training:
    """A model, its optimizer, its text; a step is timed from forgetting the last gradients to the update."""

    def __init__(self, options: argparse.Namespace) -> None:
        shape = model.Shape(options.layers, options.heads, options.width, options.batch, options.sequence,
                            options.vocab)
        torch.manual_seed(options.seed)
        self.net = model.Gpt(shape, systems.WRAPS[options.system])
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=options.lr)
        self.texts = [model.text(shape, options.seed + step) for step in range(options.steps + 1)]
        self.recording: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext

    def step(self, number: int) -> str:
        """The loss, as text that has every bit of it."""
        self.optimizer.zero_grad()
        with self.recording():
            loss = self.net(self.texts[number])
        loss.backward()
        self.optimizer.step()
        return loss.item().hex()

    def gradients(self) -> str:
        """A hash of all of them, bit by bit."""
        digest = hashlib.sha256()
        for parameter in self.net.parameters():
            digest.update(parameter.grad.numpy().tobytes())
        return digest.hexdigest()

    def standing_bytes(self) -> int:
        """What a step finds: weights, the optimizer's state, the texts."""
        tensors = [*self.net.parameters(), *self.net.buffers(), *self.texts]
        for state in self.optimizer.state.values():
            tensors += [value for value in state.values() if isinstance(value, torch.Tensor)]
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
        return sum(storage.nbytes() for storage in storages.values())


def counted_peak_bytes(training: Training, number: int) -> int:
    """Peak of the CPU allocator in one more step, which nobody times: what stands, and the profiler's
    memory events summed up. Those lack the end of a block from before, so none of them may end in there."""
    training.optimizer.zero_grad()
    bytes_now = peak = training.standing_bytes()
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profile:
        training.step(number)
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        bytes_now += event.nbytes()
        peak = max(peak, bytes_now)
    return peak


def resident_bytes(field: str) -> int:
    """VmRSS: of this process now; VmHWM: at most."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return int(re.search(rf"{field}:\s*(\d+) kB", status.read()).group(1)) * 1024


def enter_seconds(session: contextlib.AbstractContextManager[Any]) -> float:
    """What entering and leaving takes, with the model's tensors and the optimizer's."""
    begin = time.perf_counter()
    for _ in range(5):
        with session:
            pass
    return (time.perf_counter() - begin) / 5


def timed(training: Training, steps: int, after: Callable[[], None]) -> dict[str, Any]:
    losses, seconds = [], []
    for number in range(steps):
        begin = time.perf_counter()
        losses.append(training.step(number))
        after()
        seconds.append(time.perf_counter() - begin)
    return {"losses": losses, "step_seconds": seconds, "process_peak_bytes": resident_bytes("VmHWM"),
            "gradients": training.gradients()}


def under_a_budget(training: Training, options: argparse.Namespace) -> dict[str, Any]:
    import spillway  # no other system's process loads it

    session = spillway.session(training.net, device_budget=options.budget, nvme=options.nvme,
                               optimizer=training.optimizer)
    training.recording = lambda: session
    results = timed(training, options.steps, session.step)
    report = json.loads(session.report().to_json())
    numbers = {name: report[name] for name in ("stored_bytes", "loaded_bytes", "recomputed_bytes", "saved_tensors",
                                            "stall_store_ns", "stall_load_ns")}
    numbers["allocator_peak_bytes"] = report["device_peak_bytes"]
    return results | numbers | {"enter_s": enter_seconds(session)}


def alternately(training: Training, options: argparse.Namespace) -> dict[str, Any]:
    """Each step twice, in a session and without one, in turns: what processes differ in, both have."""
    import spillway

    session = spillway.session(training.net, device_budget=options.budget, optimizer=training.optimizer)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(options.steps):
        for ours in (True, False) if number % 2 == 0 else (False, True):
            training.recording = (lambda: session) if ours else contextlib.nullcontext
            begin = time.perf_counter()
            training.step(number)
            if ours:
                session.step()
            seconds[ours].append(time.perf_counter() - begin)
    return {"ours_seconds": seconds[True][2:], "plain_seconds": seconds[False][2:]}  # the first ones warm up


def without(training: Training, options: argparse.Namespace) -> dict[str, Any]:
    results = timed(training, options.steps, lambda: None)
    if options.count:
        results["allocator_peak_bytes"] = counted_peak_bytes(training, options.steps)
    return results


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", choices=systems.WRAPS, required=True)
    for flag in ("layers", "heads", "width", "batch", "sequence", "vocab", "steps", "seed", "threads"):
        parser.add_argument(f"--{flag}", type=int, required=True)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--count", action="store_true", help="the allocator's peak, in one step more")
    parser.add_argument("--budget", type=int, help="device bytes for Spillway; without it, no session")
    parser.add_argument("--alternate", action="store_true", help="every step twice, in a session and without one")
    parser.add_argument("--nvme", help="folder for what leaves")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    before = resident_bytes("VmRSS")
    training = Training(options)
    run = alternately if options.alternate else under_a_budget if options.budget else without
    print(json.dumps(run(training, options) | {"baseline_rss_bytes": before}), flush=True)


if __name__ == "__main__":
    main()
