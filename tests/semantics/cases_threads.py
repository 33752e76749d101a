# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Threads: backward elsewhere, forwards elsewhere, and graphs that go elsewhere."""

import threading
from collections.abc import Callable
from typing import Any

import torch
from case import MEMORY, WRITTEN, Subject, Watch, case


def _deep(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.cos()).exp().tanh().sigmoid()


def _elsewhere(*calls: Callable[[], Any]) -> list[Any]:
    """Runs each call on a thread of its own, all at once; an error of any is raised here."""
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            results[number] = calls[number]()
        except BaseException as error:  # noqa: BLE001 - raised where the case runs
            errors.append(error)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


@case("6.5")
def backward_elsewhere(s: Subject) -> Any:
    """backward on another thread"""
    x = s.leaf()
    out = s.run(_deep, x)
    _elsewhere(out.sum().backward)
    return x.grad


@case("6.5")
def backwards_at_once(s: Subject) -> Any:
    """three backwards of three graphs on three threads"""
    xs = [s.leaf() for _ in range(3)]
    totals = [out.sum() for out in s.run(lambda *xs: tuple(_deep(x) for x in xs), *xs)]
    _elsewhere(*(total.backward for total in totals))
    return [x.grad for x in xs]


@case("6.5 6.3")
def backwards_of_one_graph_at_once(s: Subject) -> Any:
    """one retained graph, three gradients on three threads"""
    x = s.leaf()
    total = s.run(_deep, x).sum()
    grads = _elsewhere(*(lambda: torch.autograd.grad(total, x, retain_graph=True) for _ in range(3)))
    return grads, torch.autograd.grad(total, x)


@case("6.5 6.6")
def forward_of_another_thread(s: Subject) -> Any:
    """a thread that is started inside trains plainly"""
    x, y = s.leaf(), s.leaf()
    with s.region():
        out = _deep(x)
        _elsewhere(lambda: _deep(y).sum().backward())
    out.sum().backward()
    return x.grad, y.grad


@case("6.5")
def backward_while_another_forward_runs(s: Subject) -> Any:
    """backward on another thread stands in its middle while this one runs the next forward"""
    x, y = s.leaf(), s.leaf()
    half, go = threading.Event(), threading.Event()

    def forward(x: torch.Tensor) -> torch.Tensor:
        middle = x.sin().exp()
        middle.register_hook(lambda _: (half.set(), go.wait(10))[2:] or None)
        return _deep(middle)
    total = s.run(forward, x).sum()
    thread = threading.Thread(target=total.backward)
    thread.start()
    half.wait(10)
    try:
        out = s.run(_deep, y)
    finally:
        go.set()
        thread.join()
    out.sum().backward()
    return x.grad, y.grad


@case("6.5")
def region_on_each_thread(s: Subject) -> Any:
    """each of two threads with an object of its own"""
    xs = [s.leaf(), s.leaf()]

    def train(x: torch.Tensor) -> None:
        with s.another():
            out = _deep(x)
        out.sum().backward()
    _elsewhere(*(lambda x=x: train(x) for x in xs))
    return [x.grad for x in xs]


@case("6.5 6.1", raises=WRITTEN)
def written_elsewhere(s: Subject) -> Any:
    """written in place by another thread"""
    x = s.leaf()
    hidden, out = s.run(lambda x: (hidden := x * 2, hidden.sin().cos()), x)
    s.write(lambda: _elsewhere(lambda: hidden.detach().add_(1)))
    out.sum().backward()
    return x.grad


@case("6.5 6.4", wrong=MEMORY)
def dropped_elsewhere(s: Subject) -> Any:
    """a graph whose last name goes on another thread"""
    watch = Watch(s)
    names = [watch.graph(s.run(lambda x: (x.sin() * x.cos()).sin().cos(), s.leaf()))]
    _elsewhere(names.clear)
    watch.expect_released()


@case("6.5", moves=False)
def data_parallel_like(s: Subject) -> Any:
    """backward with the engine's threads switched off"""
    x = s.leaf()
    with torch.autograd.set_multithreading_enabled(False):
        s.run(_deep, x).sum().backward()
    return x.grad
