# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Which saved tensor is the output of the very node that saves it: Functions that record a graph in their forward or write
views in place, and tensors of another thread, whose nodes have the same numbers."""

import contextlib
import functools
import gc
import threading
import unittest
from collections.abc import Callable

import torch

import same_bits

SIDE = 128


class RecordsAndSaves(torch.autograd.Function):
    """Saves what a graph of its forward ends with."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            inner = x.detach().requires_grad_()
            end = (inner * 2.0).sin()
        end.scale = 5.0
        ctx.save_for_backward(inner, end)
        return end.detach() * 3.0

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        inner, end = ctx.saved_tensors
        return torch.autograd.grad(end, inner, gradient * getattr(end, "scale", 1.0))[0]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(y)
        return y * y.scale

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return gradient * getattr(y, "scale", 1.0)


class WritesInPlace(torch.autograd.Function):
    """Saves its outputs, which are its inputs. What torch then gives a view as its node is none of the Function's."""

    @staticmethod
    def forward(ctx, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for each in inputs:
            each.tanh_()
        ctx.mark_dirty(*inputs)
        ctx.save_for_backward(*inputs)
        return inputs

    @staticmethod
    def backward(ctx, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(gradient * (1 - y * y) for gradient, y in zip(gradients, ctx.saved_tensors, strict=True))


class WritesOneSavesAnother(torch.autograd.Function):
    @staticmethod
    def forward(ctx, written: torch.Tensor, also: torch.Tensor) -> torch.Tensor:
        written.tanh_()
        ctx.mark_dirty(written)
        ctx.save_for_backward(also)
        return written

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (also,) = ctx.saved_tensors
        return gradient * also.sum(), None


def on_a_thread(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    made: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join()
    return made[0]


class OwnOutput(same_bits.Case):
    def as_plain(self, run: Callable[[], torch.Tensor]) -> None:
        plain = run()
        session = self.open(torch.nn.Linear(1, 1), "64MiB", min_tensor_bytes=1)

        def entered() -> torch.Tensor:
            with session:
                return run()
        self.assertEqual(same_bits.bits([on_a_thread(entered)]), same_bits.bits([plain]))

    def test_what_a_graph_of_the_forward_ends_with(self) -> None:
        def run() -> torch.Tensor:
            x = same_bits.noise(SIDE, SIDE).requires_grad_()
            RecordsAndSaves.apply(x * 1.0).sum().backward()
            return x.grad
        self.as_plain(run)

    def test_what_a_function_writes_in_place(self) -> None:
        """Another storage given to it since is not what was saved."""
        views: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
            "itself": lambda y: y, "a view": lambda y: y.view(-1), "a part": lambda y: y[1:], "a view of a view": lambda y: y.t()[2:],
            "twenty views": lambda y: functools.reduce(lambda view, _: view.t()[1:], range(20), y)}
        for name, view in views.items():
            for several in (False, True) if name == "itself" else (False,):  # torch takes one view alone
                def run(view: Callable[[torch.Tensor], torch.Tensor] = view, several: bool = several) -> torch.Tensor:
                    x = same_bits.noise(SIDE, SIDE).requires_grad_()
                    inputs = [view(x * (number + 1.0)) for number in range(1 + several)]
                    outputs = WritesInPlace.apply(*inputs)
                    loss = sum(output.sum() for output in outputs)
                    for output in outputs:
                        output.data = output.detach() * 0.5
                    loss.backward()
                    return x.grad
                with self.subTest(name, several=several):
                    self.as_plain(run)

    def test_what_a_function_only_saves_of_a_base_that_it_writes(self) -> None:
        """The base, and another view of it, are none of its outputs: other data given to them since are seen."""
        for name, of in (("base", lambda base: base), ("view", lambda base: base[1:3])):
            def run(of: Callable[[torch.Tensor], torch.Tensor] = of) -> torch.Tensor:
                x = same_bits.noise(SIDE, SIDE).requires_grad_()
                base = x * 1.0
                also = of(base)
                loss = WritesOneSavesAnother.apply(base[0], also).sum()
                also.data = also.detach() * 0.5
                loss.backward()
                return x.grad
            with self.subTest(name):
                self.as_plain(run)

    def test_what_another_thread_made(self) -> None:
        """On a new thread nodes are numbered from 0: the node that saves comes right after the one that made `y`, by number."""
        def encode(x: torch.Tensor) -> torch.Tensor:
            y = x.tanh().sin()
            y.scale = 0.25
            return y

        def run() -> torch.Tensor:
            x = same_bits.noise(SIDE, SIDE).requires_grad_()
            y = on_a_thread(lambda: encode(x))
            (Scaled.apply(y) + x * 2.0).sum().backward()
            return x.grad
        self.as_plain(run)


class MadeBeforeOthers(same_bits.Case):
    """Operators that save their own output after they made other nodes: no hook keeps that itself, whatever its size."""

    def forward(self, elements: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
        leaf = torch.linspace(0.3, 1.7, elements).requires_grad_()
        results = [leaf * factor for factor in (1.0, 2.0, 3.0)]
        torch._foreach_exp_(results)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(leaf * 1.0, leaf * 2.0)
            results.append(torch.autograd.forward_ad.unpack_dual(dual.exp()).primal)
        return leaf, results

    def gradient(self, around, elements: int) -> torch.Tensor:
        with around:
            leaf, results = self.forward(elements)
            loss = sum(result.sum() for result in results[:3])
            for result in results[:3]:
                result.data = torch.zeros(elements)  # what autograd saved is a copy of its own
            loss.backward()
        return leaf.grad

    def test_other_data_of_an_output_do_not_count(self):
        for elements in (6, 40_000):
            with self.subTest(elements):
                plain = self.gradient(contextlib.nullcontext(), elements)
                session = self.open(torch.nn.Linear(2, 2), "64MiB")
                self.assertTrue(torch.equal(self.gradient(session, elements), plain))

    def test_an_output_ends_with_its_graph(self):
        for elements in (6, 40_000):
            with self.subTest(elements), self.open(torch.nn.Linear(2, 2), "64MiB"):
                _, results = self.forward(elements)
                saved = [result.untyped_storage()._weak_ref() for result in results]
                del results
                gc.collect()
                for weak in saved:
                    self.assertTrue(torch.UntypedStorage._expired(weak), "a reference cycle holds it")
                    torch.UntypedStorage._free_weak_ref(weak)


if __name__ == "__main__":
    unittest.main()
