# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A Function may return what it saved as a gradient. Autograd takes a gradient over, without a copy, where nobody else
refers to it; of a saved tensor it must not, or `.grad` has the bytes of a parameter or of another's gradient."""

import faulthandler
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

import spillway
import torch

import same_bits

SIDE = 128


class Dot(torch.autograd.Function):
    """sum(a * b): the gradient of each is the other."""

    @staticmethod
    def forward(ctx, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return (a * b).sum()

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        a, b = ctx.saved_tensors
        return b, a


class Scale(torch.Tensor):
    """A subclass of a parameter's class, with nothing of its own."""


def parameter(step: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(same_bits.noise(SIDE, SIDE, step=step))


class SavedAsGradient(same_bits.Case):
    def as_plain(self, run: Callable[[Callable[[Callable[[], Any]], Any]], list[torch.Tensor]]) -> None:
        """`run(recorded)`; `recorded(forward)` is called in the session, if there is one."""
        plain = run(lambda forward: forward())
        for min_tensor_bytes in (1, 1 << 30):
            session = self.open(torch.nn.Linear(1, 1), "64MiB", min_tensor_bytes=min_tensor_bytes)

            def recorded(forward: Callable[[], Any], session: spillway.Session = session) -> Any:
                with session:
                    return forward()
            with self.subTest(min_tensor_bytes=min_tensor_bytes):
                self.assertEqual(same_bits.bits(run(recorded)), same_bits.bits(plain))
            session.close()

    def test_a_parameters_bytes(self) -> None:
        def run(recorded) -> list[torch.Tensor]:
            a, b = parameter(1), parameter(2)
            optimizer = torch.optim.SGD([a, b], lr=0.1)
            for _ in range(3):
                recorded(lambda: Dot.apply(a, b)).backward()
                self.assertNotIn(a.grad.data_ptr(), (a.data_ptr(), b.data_ptr()))
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
            return [a, b]
        self.as_plain(run)

    def test_a_parameter_of_a_subclass(self) -> None:
        def run(recorded) -> list[torch.Tensor]:
            a, b = (parameter(step).detach().as_subclass(Scale).requires_grad_() for step in (1, 2))
            recorded(lambda: Dot.apply(a, b)).backward()
            with torch.no_grad():
                a.grad.zero_()
            return [a.detach(), b.detach()]
        self.as_plain(run)

    def test_an_activation_that_its_user_holds(self) -> None:
        def run(recorded) -> list[torch.Tensor]:
            weight, x = parameter(1), same_bits.noise(SIDE, SIDE).requires_grad_()
            held = []

            def forward() -> torch.Tensor:
                held.append(x.tanh())
                return Dot.apply(weight, held[0])
            recorded(forward).backward()
            torch.nn.utils.clip_grad_norm_([weight], 1.0)
            return [weight.grad, held[0], x.grad]
        self.as_plain(run)

    def test_what_two_functions_saved(self) -> None:
        def run(recorded) -> list[torch.Tensor]:
            first, second = parameter(1), parameter(2)

            def forward() -> torch.Tensor:
                shared = same_bits.noise(SIDE, SIDE)
                return Dot.apply(first, shared) + Dot.apply(second, shared)
            recorded(forward).backward()
            first.grad.mul_(0.5)
            return [first.grad, second.grad]
        self.as_plain(run)

    def test_a_graph_that_is_retained(self) -> None:
        def run(recorded) -> list[torch.Tensor]:
            weight = parameter(1)
            loss = recorded(lambda: Dot.apply(weight, same_bits.noise(SIDE, SIDE)))
            loss.backward(retain_graph=True)
            weight.grad.mul_(0.5)
            loss.backward()
            return [weight.grad]
        self.as_plain(run)

    def test_a_backward_inside_another_one(self) -> None:
        """What the inner one gives goes on as a gradient of the outer one."""
        def run(recorded) -> list[torch.Tensor]:
            a, b, x = parameter(1), parameter(2), parameter(3)
            inner = recorded(lambda: Dot.apply(a, b))
            x.register_hook(lambda gradient: torch.autograd.grad(inner, [a], retain_graph=True)[0])
            recorded(lambda: (x * 2).sum()).backward()
            x.grad.zero_()
            return [a, b]
        self.as_plain(run)

    def test_a_leaf_that_wants_its_gradient_only_later(self) -> None:
        def run(recorded, kind: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
            a, b = kind(same_bits.noise(SIDE, SIDE)).clone().requires_grad_(), kind(same_bits.noise(SIDE, SIDE))
            loss = recorded(lambda: Dot.apply(a, b).abs())
            b.requires_grad_()
            loss.backward()
            a.grad.zero_()
            return [b.detach().resolve_conj().to_dense()]
        for kind in (torch.Tensor.clone, lambda x: x.to(torch.complex64).conj(), torch.Tensor.to_sparse,
                     lambda x: x.as_subclass(Scale)):
            self.as_plain(lambda recorded, kind=kind: run(recorded, kind))

    def test_a_later_gradient_of_a_leaf_whose_data_backward_replaces(self) -> None:
        class Replaces(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
                ctx.save_for_backward(a, b)
                return a * b

            @staticmethod
            def backward(ctx, gradient: torch.Tensor):
                b = ctx.saved_tensors[1]
                b.data = torch.ones_like(b)
                return gradient * b, None

        def run(recorded) -> list[torch.Tensor]:
            a, b = parameter(1), same_bits.noise(SIDE, SIDE)
            y = recorded(lambda: Replaces.apply(a, b))
            b.requires_grad_()
            for _ in range(2):
                y.sum().backward(retain_graph=True)
            return [a.grad]
        self.as_plain(run)

    def test_conjugates_and_sparse_tensors(self) -> None:
        class First(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
                ctx.save_for_backward(b)
                return a.sum().abs()

            @staticmethod
            def backward(ctx, gradient: torch.Tensor):
                return ctx.saved_tensors[0], None

        def conjugate(recorded) -> list[torch.Tensor]:
            a, b = (torch.nn.Parameter(same_bits.noise(SIDE, SIDE).to(torch.complex64)) for _ in range(2))
            held = b.conj()
            recorded(lambda: First.apply(a, held)).backward()
            a.grad.zero_()
            return [torch.view_as_real(b.detach())]

        def sparse(recorded) -> list[torch.Tensor]:
            a, b = torch.nn.Parameter(torch.zeros(SIDE)), same_bits.noise(SIDE).to_sparse().requires_grad_()
            recorded(lambda: First.apply(a, b)).backward()
            a.grad._values().mul_(0.5)
            return [b.detach().to_dense()]
        self.as_plain(conjugate)
        self.as_plain(sparse)

    def test_two_threads_that_each_train_do_not_wait_for_each_other(self) -> None:
        """One asked a Python tensor's references under a lock that the other waited for, under Python's."""
        def train() -> None:
            session = self.open(torch.nn.Linear(1, 1), "64MiB", min_tensor_bytes=1)
            weight = parameter(1)
            end = time.monotonic() + 3
            while time.monotonic() < end:
                with session:
                    loss = Dot.apply(weight, same_bits.noise(8, 8).repeat(16, 16))
                loss.backward()
            session.close()
        faulthandler.dump_traceback_later(600, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        threads = [threading.Thread(target=train) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def test_nothing_is_held_after_backward(self) -> None:
        session = self.open(torch.nn.Linear(1, 1), "64MiB", min_tensor_bytes=1)
        weight = parameter(1)
        with session:
            loss = Dot.apply(weight, same_bits.noise(SIDE, SIDE))
        loss.backward()
        self.assertEqual(torch.ops.spillway.guards_from_stealing(), 0)


if __name__ == "__main__":
    unittest.main()
