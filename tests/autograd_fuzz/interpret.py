# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a program under a system (plain autograd, Spillway, a broken one) and tells all that could be seen:
results, gradients, versions, errors, hooks in their order, how often bodies ran, what is alive at the end."""

import contextlib
import dataclasses
import gc
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
import torch.utils.checkpoint
from torch import Tensor

from . import observe, operators
from .program import Leaf, Program, Step

Event = tuple[object, ...]
Env = dict[int, Tensor]


class System(Protocol):
    """Who keeps what autograd saves."""

    def given(self, leaf: Tensor) -> None: ...
    def enter(self, which: int) -> None: ...
    def leave(self, which: int) -> None: ...


class Plain:
    def given(self, leaf: Tensor) -> None:
        pass

    def enter(self, which: int) -> None:
        pass

    def leave(self, which: int) -> None:
        pass


class Refused(Exception):
    """The system's budget is too small for this program."""


def make(leaf: Leaf) -> Tensor:
    generator = torch.Generator().manual_seed(leaf.seed)
    shape = leaf.shape[::-1] if leaf.layout == "transposed" else leaf.shape
    if leaf.high:
        value = torch.randint(leaf.high, shape, generator=generator)
    else:
        value = torch.randn(shape, generator=generator)
    value = value.to(getattr(torch, leaf.dtype))
    if leaf.layout == "transposed":
        value = value.permute(*reversed(range(value.dim())))
    return value.requires_grad_(leaf.requires_grad)


def collect() -> None:
    """Errors hold frames, those hold tensors; and torch keeps what failed in backward until the next one."""
    for _ in range(3):
        gc.collect()
        torch.zeros((), requires_grad=True).sin().backward()
    gc.freeze()  # what is left is torch's and stays: the next collection need not look at it


class Run:
    def __init__(self, program: Program, system: System) -> None:
        self._program = program
        self._system = system
        self._entered: list[int] = []
        self._events: dict[int, list[Event]] = {}
        self._env: Env = {}
        self._alive: list[tuple[int, weakref.ref[Tensor]]] = []
        self._leaves: list[Leaf] = []
        self._bodies = 0
        self._looked = {name for step in program.steps if step.op == "look" for name in step.outs}
        self._swapped = {step.args[0] for step in program.steps
                         if (step.op == "touch" and step.attrs["kind"] in ("swap", "turn"))
                         or step.attrs.get("name") == "SwapsItsInput"}

    def record(self, *event: object) -> None:
        """Each thread tells on its own, so that the order is the program's."""
        self._events.setdefault(threading.get_ident(), []).append(event)

    def whole(self) -> list[Event]:
        torch.default_generator.manual_seed(self._program.seed)
        try:
            self._run()
        except torch.OutOfMemoryError as full:
            raise Refused(str(full)) from None
        finally:
            while self._entered:
                self._system.leave(self._entered.pop())
            self._cut(*self._env.values(), *(value for _, ref in self._alive if (value := ref()) is not None))
            self._env.clear()
        collect()
        self.record("alive", [name for name, ref in self._alive if ref() is not None])
        return self._events.pop(threading.get_ident())

    def _run(self) -> None:
        for leaf in self._program.leaves:
            self._env[leaf.name] = make(leaf)
            self._system.given(self._env[leaf.name])
            self._leaves.append(leaf)
        leaf_names = {leaf.name for leaf in self._leaves}
        ends = self._program.last_uses()
        for index, step in enumerate(self._program.steps):
            self._attempt(index, step)
            if step.op == "backward":
                self._record_gradients()
            for name in ends.get(index, []):
                if name not in leaf_names and not self._program.hold:
                    self._release(name)
        for name, value in self._env.items():
            self._look_at(name, value)

    def _attempt(self, index: int, step: Step) -> None:
        if step.op == "loss":  # of what there is
            step = dataclasses.replace(step, args=[name for name in step.args if name in self._env])
        if any(name not in self._env for name in step.args):
            self.record(index, "skipped")
            return
        try:
            with torch.no_grad() if "under_no_grad" in step.attrs else contextlib.nullcontext():
                results = self._do(step, self._env)
        except Exception as raised:
            if observe.is_out_of_memory(raised):
                raise Refused(str(raised)) from None
            self.record(index, *observe.error(raised))
            return
        for name, result in zip(step.outs, results, strict=False):
            if result is not None:
                self._env[name] = result
                self._alive.append((name, weakref.ref(result)))

    def _release(self, name: int) -> None:
        if name in self._env:
            self._look_at(name, self._env.pop(name))

    @staticmethod
    def _cut(*values: Tensor) -> None:
        """A gradient that has a graph keeps its tensor, and that the graph: plain autograd leaks it, too."""
        for value in values:
            with contextlib.suppress(RuntimeError):
                value.grad = None

    def _look_at(self, name: int, value: Tensor) -> None:
        if name in self._looked:  # under any hooks another variable: without the `.grad` or the base that it may have
            self.record("value", name, *observe.tensor(value.detach()))
        else:
            self.record("value", name, *observe.tensor(value), *observe.gradient(value))

    def _do(self, step: Step, env: Env) -> list[Tensor | None]:
        special = getattr(self, "_do_" + step.op, None)
        if special is not None:
            return list(special(step, env) or [])
        result = operators.apply(step.op, [env[name] for name in step.args], step.attrs)
        return [result] if isinstance(result, Tensor) else list(result or [])

    # Regions: a body of statements under a context.

    def _body(self, step: Step, env: Env) -> Callable[..., tuple[Tensor, ...]]:
        made = {name for inner in step.body for name in inner.outs}
        captured = {name: env[name] for name in step.uses()
                    if name in env and name not in step.args and name not in made}

        def body(*args: Tensor) -> tuple[Tensor, ...]:
            self.record("body", step.attrs["name"])
            self._bodies += 1
            if self._bodies > 200:
                raise RuntimeError("the bodies of this program run without end")
            local = captured | dict(zip(step.args, args, strict=True))
            for inner in step.body:
                for name, result in zip(inner.outs, self._do(inner, local), strict=False):
                    if result is not None:
                        local[name] = result
            return tuple(local[name] for name in step.attrs["gives"])

        return body

    def _do_region(self, step: Step, env: Env) -> tuple[Tensor, ...]:
        body, args = self._body(step, env), [env[name] for name in step.args]
        kind = step.attrs["kind"]
        if kind == "thread":
            return self._in_thread(lambda: body(*args))
        with _CONTEXTS[kind]():
            return body(*args)

    def _do_checkpoint(self, step: Step, env: Env) -> tuple[Tensor, ...]:
        args = [env[name] for name in step.args]
        with torch.utils.checkpoint.set_checkpoint_early_stop(step.attrs["early_stop"]):
            return torch.utils.checkpoint.checkpoint(
                self._body(step, env), *args, use_reentrant=step.attrs["reentrant"])

    def _in_thread(self, *functions: Callable[[], Any]) -> Any:
        """All at once, each in a thread; the last one's result, or the first error."""
        ends: list[tuple[Any, BaseException | None, list[Event]]] = [(None, None, [])] * len(functions)

        def run(index: int) -> None:
            result, error = None, None
            self._events.pop(threading.get_ident(), None)  # of a Function's own thread, which had this number before
            try:
                result = functions[index]()
            except Exception as raised:
                error = raised
            ends[index] = (result, error, self._events.pop(threading.get_ident(), []))

        threads = [threading.Thread(target=run, args=(index,)) for index in range(len(functions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
            # What torch keeps for it goes later than the thread that Python sees.
            while os.path.exists(f"/proc/self/task/{thread.native_id}"):
                time.sleep(0.0001)
        for _, error, events in ends:
            if error is not None:
                self.record("thread failed", *observe.error(error))
            self.record("thread", events)
        errors = [error for _, error, _ in ends if error is not None]
        errors.sort(key=lambda error: not observe.is_out_of_memory(error))  # that one is no difference
        result = ends[-1][0]
        ends.clear()
        if errors:
            raise errors.pop(0)
        return result

    # Actions.

    def _do_enter(self, step: Step, env: Env) -> None:
        which = step.attrs["which"]
        if which not in self._entered:
            self._system.enter(which)
            self._entered.append(which)

    def _do_leave(self, step: Step, env: Env) -> None:
        if self._entered:
            self._system.leave(self._entered.pop())

    def _do_drop(self, step: Step, env: Env) -> None:
        gc.collect()

    def _do_zero_grad(self, step: Step, env: Env) -> None:
        for leaf in self._leaves:
            env[leaf.name].grad = None

    def _do_update(self, step: Step, env: Env) -> None:
        with torch.no_grad():
            for leaf in self._leaves:
                value = env[leaf.name]
                if value.grad is not None and value.grad.layout == torch.strided:
                    value.sub_(value.grad, alpha=0.125)

    def _do_refill(self, step: Step, env: Env) -> None:
        """A batch's buffer gets the next batch."""
        value = env[step.args[0]]
        generator = torch.Generator().manual_seed(step.attrs["seed"])
        with torch.no_grad():
            value.copy_(torch.randn(value.shape, generator=generator))

    def _do_backward(self, step: Step, env: Env) -> None:
        values = [env[name] for name in step.args]
        roots, inputs = values[: step.attrs["roots"]], values[step.attrs["roots"]:]

        def backward() -> None:
            torch.autograd.backward(
                roots, [torch.ones_like(root) for root in roots], retain_graph=step.attrs["retain"],
                create_graph=step.attrs["create"], inputs=inputs or None)

        self._in_thread(backward) if step.attrs["thread"] else backward()

    def _do_grad(self, step: Step, env: Env) -> tuple[Tensor | None, ...]:
        values = [env[name] for name in step.args]
        roots, inputs = values[: step.attrs["roots"]], values[step.attrs["roots"]:]

        def grad() -> tuple[Tensor | None, ...]:
            return torch.autograd.grad(
                roots, inputs, [torch.ones_like(root) for root in roots], retain_graph=step.attrs["retain"],
                create_graph=step.attrs["create"], allow_unused=step.attrs["unused"])

        return self._in_thread(grad) if step.attrs["thread"] else grad()

    def _do_together(self, step: Step, env: Env) -> None:
        """Each root's gradients in a thread of its own, at the same time."""
        values = [env[name] for name in step.args]
        roots, inputs = values[: step.attrs["roots"]], values[step.attrs["roots"]:]

        def grad(root: Tensor) -> None:
            found = torch.autograd.grad(root.sum(), inputs, retain_graph=True, allow_unused=True)
            self.record(*(observe.tensor(value) for value in found))

        self._in_thread(*(lambda root=root: grad(root) for root in roots))

    def _record_gradients(self) -> None:
        for leaf in self._leaves:
            if leaf.requires_grad:
                self.record("grad", leaf.name, *observe.tensor(self._env[leaf.name].grad, is_gradient=True))

    def _do_retain_grad(self, step: Step, env: Env) -> None:
        env[step.args[0]].retain_grad()

    def _do_peek(self, step: Step, env: Env) -> None:
        """Reads what the node of a result has saved, as a debugger does."""
        node = env[step.args[0]].grad_fn
        for name in dir(node):
            if name.startswith("_saved_"):
                value = getattr(node, name)
                self.record(name, observe.tensor(value) if isinstance(value, Tensor) else str(type(value)))

    def _do_look(self, step: Step, env: Env) -> list[Tensor]:
        """One of the tensors that the node of a result has saved, held as long as the program uses it."""
        node = env[step.args[0]].grad_fn
        found = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
        # Once the graph is gone, what was read of it does not follow a leaf that gets other data.
        swapped = {env[touched].data_ptr() for touched in self._swapped if touched in env}
        saved = [each for each in found if isinstance(each, Tensor) and each.data_ptr() not in swapped]
        return [saved[step.attrs["which"] % len(saved)]] if saved else []

    def _do_touch(self, step: Step, env: Env) -> None:
        value, kind = env[step.args[0]], step.attrs["kind"]
        if kind in ("add", "array") and not value.is_floating_point():
            kind = "read"  # kernels trust the indices that they saved
        if kind == "add":
            value.data.add_(1)
        elif kind == "array":
            value.detach().numpy()[...] *= 0.5
        elif kind == "swap":
            value.data = value.detach() * 0.5
        elif kind == "turn":
            value.data = value.data.flip(0).transpose(0, -1)
        elif kind == "storage":
            self.record("storage", value.untyped_storage().nbytes())
        else:
            self.record("touch", *observe.tensor(value.detach()))

    def _do_fork(self, step: Step, env: Env) -> None:
        """As a loader's worker: it computes, gives up what it inherited, and ends."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                env.clear()
                gc.collect()
                total = torch.ones(130, 128, requires_grad=True).sin().sum()
                total.backward()
                torch.empty(1 << 24, dtype=torch.uint8)
                status = 0
            finally:
                os._exit(status)
        self.record("fork", os.waitpid(child, 0)[1])

    def _do_hook(self, step: Step, env: Env) -> None:
        value, kind, name = env[step.args[0]], step.attrs["kind"], step.args[0]

        def hook(grad: Tensor) -> Tensor | None:
            self.record("hook", name, kind, *observe.tensor(grad))
            if kind == "raise":
                raise RuntimeError("this hook refuses")
            return grad * 0.5 if kind == "half" else None

        def after(leaf: Tensor) -> None:
            self.record("accumulated", name, *observe.tensor(leaf.grad, is_gradient=True))

        def update(leaf: Tensor) -> None:
            self.record("update", name, *observe.tensor(leaf.grad, is_gradient=True))
            with torch.no_grad():
                leaf.sub_(leaf.grad, alpha=0.125)
            leaf.grad = None

        def at_node(*grads: tuple[Tensor | None, ...]) -> None:
            self.record("node", name, *(observe.tensor(grad) for group in grads for grad in group))

        if kind == "accumulated":
            value.register_post_accumulate_grad_hook(after)
        elif kind == "update":
            value.register_post_accumulate_grad_hook(update)
        elif kind == "node":
            value.grad_fn.register_hook(at_node)
        elif kind == "before_node":
            value.grad_fn.register_prehook(at_node)
        else:
            handle = value.register_hook(hook)
            if kind == "removed":
                handle.remove()


@contextlib.contextmanager
def _hooks() -> Iterator[None]:
    """They detach, or a node that saves its own output would be a cycle."""
    with torch.autograd.graph.saved_tensors_hooks(Tensor.detach, lambda saved: saved):
        yield


_CONTEXTS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad, "autocast": lambda: torch.autocast("cpu", torch.bfloat16), "hooks": _hooks,
    "enable_grad": torch.enable_grad,
    "inference": torch.inference_mode, "anomaly": torch.autograd.detect_anomaly,
}


def interpret(program: Program, system: System) -> list[Event]:
    return Run(program, system).whole()


def difference(plain: list[Event], other: list[Event]) -> tuple[Event, Event] | None:
    """The first event that differs; what is alive at the end is another question."""
    for left, right in itertools.zip_longest(plain, other, fillvalue=("nothing",)):
        if left != right and not left[0] == right[0] == "alive":
            return left, right
    return None


def alive(events: list[Event]) -> set[int]:
    """The results that something still held after the end."""
    return set(events[-1][1])
