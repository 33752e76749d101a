# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a program may do with a saved tensor that it was handed: keep it, write it, swap or resize its bytes,
look at its storage, read it twice, in several threads. Plain autograd gives the saved tensor itself; so each case
runs plainly first, and then in a session whose other tensors push what is kept off the device."""

import pathlib
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

import spillway
import torch

import same_bits
from as_plain import BUDGET, ROWS, AsPlain, push


class Swap(torch.autograd.Function):
    """Its backward does `change` to what it unpacked, and unpacks again."""

    change: Callable[[torch.Tensor], object] = staticmethod(lambda saved: None)
    grad: bool = False

    @staticmethod
    def forward(ctx, x):
        held = x * 3 if Swap.grad else (x > 0).float()
        ctx.save_for_backward(held)
        return x * held

    @staticmethod
    def backward(ctx, gradient):
        (saved,) = ctx.saved_tensors
        first = saved.sum()
        Swap.change(saved)
        del saved
        push()
        (again,) = ctx.saved_tensors
        return gradient * again.flatten()[:1] + first


class HandedOut(AsPlain):
    def test_a_tensor_that_python_holds_is_written_where_backward_reads_it(self):
        def body(x, push_out):
            y = x.sin() * (x > 0).float()
            held = y.grad_fn._saved_other
            push_out()
            held.data.mul_(2)
            push_out()
            y.sum().backward()
            return same_bits.bits([x.grad])

        self.as_plain(body)

    def test_a_second_look_is_at_the_same_tensor(self):
        seen = []

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward((x > 0).float())
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                (one,) = ctx.saved_tensors
                push()
                (two,) = ctx.saved_tensors
                seen.append(one is two)
                one.data.add_(1)
                return gradient * two

        def body(x, push_out):
            y = Twice.apply(x)
            push_out()
            y.sum().backward()
            return same_bits.bits([x.grad]), seen.pop()

        self.as_plain(body)

    def test_what_a_function_does_to_what_it_unpacked_is_there_again(self):
        changes = {
            "data": lambda saved: setattr(saved, "data", torch.full((4, 4), 7.0)),
            "set_": lambda saved: saved.data.set_(torch.full((4, 4), 7.0)),
            "write": lambda saved: saved.data.mul_(3),
            "resize_": lambda saved: saved.data.resize_(2, 2),
            "storage": lambda saved: saved.untyped_storage().resize_(ROWS * ROWS * 8),
            "transpose": lambda saved: setattr(saved, "data", saved.data.t()),
        }
        for grad in (False, True):
            for name, change in changes.items():
                with self.subTest(change=name, grad=grad):
                    Swap.change, Swap.grad = staticmethod(change), grad

                    def body(x, push_out):
                        y = Swap.apply(x)
                        push_out()
                        y.sum().backward(retain_graph=True)
                        push_out()
                        y.sum().backward()
                        return same_bits.bits([x.grad])

                    self.as_plain(body)

    def test_what_was_swapped_after_it_was_saved_again_is_swapped_there_too(self):
        class Again(torch.autograd.Function):
            """Its backward is recorded: the product saves what was unpacked, which is another one then."""

            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward((x > 0).float() + 1)
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                (saved,) = ctx.saved_tensors
                product = gradient * saved
                saved.data = saved.data.t() if Again.turns else saved.detach() * 3
                return product

        for Again.turns in (False, True):
            with self.subTest(turns=Again.turns):
                def body(x, push_out):
                    y = Again.apply(x.sin())
                    (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
                    push_out()
                    gradient.square().sum().backward()
                    return same_bits.bits([x.grad])

                self.as_plain(body)

    def test_a_living_tensor_is_used_as_the_view_that_it_is_now(self):
        for kind in (torch.Tensor.t, lambda whole: whole[:1]):
            def body(x, push_out, kind=kind):
                held = x.cos()
                y = x.sin() * held
                push_out()
                held.data = kind(held.data)
                y.sum().backward()
                return same_bits.bits([x.grad])

            self.as_plain(body)

    def test_a_storage_whose_block_became_another_one(self):
        """Odd sizes, so that the block that the session gave is longer than its tensor."""
        size = ROWS * ROWS + 1

        def resized_elsewhere(tensor: torch.Tensor) -> None:
            def resize() -> None:
                storage, held = tensor.untyped_storage(), tensor.detach().clone()
                storage.resize_(0)
                storage.resize_(held.untyped_storage().nbytes())
                tensor.data.copy_(held)
            thread = threading.Thread(target=resize)
            thread.start()
            thread.join()

        def shared(tensor: torch.Tensor) -> None:
            before = torch.multiprocessing.get_sharing_strategy()
            torch.multiprocessing.set_sharing_strategy("file_system")
            tensor.detach().share_memory_()
            torch.multiprocessing.set_sharing_strategy(before)

        copies = []
        changes = {"resized": resized_elsewhere, "shared": shared,
                   "copied on write": lambda tensor: copies.append(torch._lazy_clone(tensor.detach()))}
        for name, change in changes.items():
            def body(x, push_out, change=change):
                leaves = [same_bits.noise(size, step=step).requires_grad_() for step in range(2)]
                outs = []
                for leaf in leaves:
                    inner = leaf * 2
                    outs.append(inner.sin())
                    change(inner)
                    del inner
                push_out()
                total = sum(out.square().sum() for out in outs)
                del outs
                push_out()
                return same_bits.bits(torch.autograd.grad(total, leaves))

            with self.subTest(name):
                self.as_plain(body)
                copies.clear()

    def test_a_storage_that_came_back_can_be_emptied(self):
        class Empties(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                held = x.sin()
                ctx.save_for_backward(held)
                return held * 2

            @staticmethod
            def backward(ctx, gradient):
                (held,) = ctx.saved_tensors
                result = gradient * held
                held.untyped_storage().resize_(0)
                return result

        def body(x, push_out):
            y = Empties.apply(x)
            push_out()
            y.sum().backward()
            return same_bits.bits([x.grad])

        self.as_plain(body)

    def test_what_came_back_has_the_layout_and_alignment_that_it_had(self):
        """Kernels are chosen by them: another one may give other bits."""
        def layout(tensor: torch.Tensor) -> tuple[Any, ...]:
            return (tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes(),
                    tensor.data_ptr() % 64, tensor.dtype, tensor.is_contiguous())

        shapes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
            "whole": lambda x: x * 1.0, "transposed": lambda x: (x * 1.0).t(), "offset": lambda x: (x * 1.0)[3:, 5:],
            "stepped": lambda x: (x * 1.0)[:, ::3], "expanded": lambda x: (x * 1.0)[:1].expand(7, -1),
            "channels last": lambda x: (x * 1.0).view(4, 8, 64, -1).contiguous(memory_format=torch.channels_last)}
        x = same_bits.noise(ROWS, ROWS).requires_grad_()
        session = self.open(torch.nn.Linear(2, 2), BUDGET, nvme_budget="64MiB")
        for name, view in shapes.items():
            with self.subTest(name), session:
                y = view(x).sin()
                before = layout(y.grad_fn._saved_self)
                push()
                self.assertEqual(layout(y.grad_fn._saved_self), before)

    def test_a_tensor_that_was_turned_conjugated_negative_or_into_another_dtype(self):
        for name, turn in {"conj": lambda t: t.conj(), "negative": lambda t: torch._neg_view(t),
                           "bits": lambda t: t.view(torch.int32)}.items():
            class Turns(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, mask):
                    ctx.save_for_backward(mask)
                    return x * 2

                @staticmethod
                def backward(ctx, gradient):
                    (mask,) = ctx.saved_tensors
                    read = mask.real if mask.is_complex() else mask.to(gradient.dtype)
                    result = gradient * (read + (mask.imag if mask.is_complex() else 0))
                    mask.data = turn(mask.data)
                    return result, None

            def body(x, push_out):
                mask = torch.complex(x.detach(), x.detach() + 1) if name == "conj" else x.detach() * 3
                y = Turns.apply(x, mask).sum()
                del mask
                push_out()
                y.backward(retain_graph=True)
                y.backward()
                return same_bits.bits([x.grad])

            with self.subTest(name):
                self.as_plain(body)

    def test_a_held_tensor_that_was_turned_conjugated_or_negative(self):
        def body(whole, push_out):
            x = whole[:64]
            y = torch.complex(x, x + 1) * 2
            z = x * 3
            loss = (y * y).abs().sum() + (z * z).sum()
            y.data = y.data.conj()
            z.data = torch._neg_view(z.data)
            push_out()
            loss.backward()
            return same_bits.bits([whole.grad])

        self.as_plain(body, moved=False)

    def test_a_part_of_backward_in_inference_mode(self):
        def body(x, push_out):
            y = x.sin().cos()
            push_out()
            node = y.grad_fn
            with torch.inference_mode():
                held = node._saved_self.sum().item()
            push_out()
            y.sum().backward()
            return held, same_bits.bits([x.grad])

        self.as_plain(body)

    def test_a_session_opened_in_inference_mode_moves(self):
        with torch.inference_mode():
            session = self.open(torch.nn.Linear(2, 2), BUDGET)
        x = same_bits.noise(ROWS, ROWS).requires_grad_()
        with session:
            y = x.sin()
            push()
        y.sum().backward()
        self.assertGreater(session.report()["stored_bytes"], 0)

    def test_what_a_backward_computes_with_is_not_written_in_vain(self):
        class Computes(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(*((x > i).float() for i in range(4)))
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                held = ctx.saved_tensors
                scratch = [torch.empty(ROWS, ROWS) for _ in range(8)]  # others have to leave
                return gradient * held[0] + scratch[0].zero_()

        x = same_bits.noise(ROWS, ROWS).requires_grad_()
        session = self.open(torch.nn.Linear(2, 2), "20MiB")
        with session:
            y = x
            for _ in range(8):
                y = y.sin()
            y = Computes.apply(y).sum()
        y.backward()
        self.assertGreater(session.report()["freed_bytes"], 0)
        self.assertEqual(session.report()["kept_by_others_bytes"], 0)

    def test_a_look_at_the_storage_pins_nothing(self):
        def stored_bytes(look: bool) -> int:
            session = self.open(torch.nn.Linear(2, 2), BUDGET, recompute="off")
            sizes = []
            with session:
                x = torch.ones(ROWS, ROWS, requires_grad=True)
                for _ in range(24):
                    x = x.sin()
                    if look:
                        sizes.append(x.untyped_storage().nbytes())
                x = x.sum()
                with self.assertRaises(torch.OutOfMemoryError):  # all leave: else time decides how many
                    torch.empty(64 << 20, dtype=torch.uint8)
                x.backward()
            report = session.report()
            session.close()
            self.assertEqual(report["kept_by_others_bytes"], 0)
            return report["stored_bytes"]

        self.assertEqual(stored_bytes(True), stored_bytes(False))

    def test_python_threads_run_while_a_function_waits_for_the_disk(self):
        asks, done = threading.Event(), threading.Event()
        turns: list[int] = []

        class Waits(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward((x > 0).float())
                return x.sum()

            @staticmethod
            def backward(ctx, gradient):
                asks.set()
                (held,) = ctx.saved_tensors  # 64 MiB from the disk
                done.set()
                return gradient * held

        def watch() -> None:
            asks.wait()
            while not done.is_set():
                turns.append(1)
                time.sleep(0.001)

        x = torch.ones(64 * ROWS, ROWS, requires_grad=True)
        session = self.open(torch.nn.Linear(2, 2), "160MiB", nvme_rate="128MiB")
        watcher = threading.Thread(target=watch)
        with session:
            y = Waits.apply(x)
            torch.empty(110 << 18)  # the mask has to leave
            watcher.start()
            y.backward()
        watcher.join()
        self.assertEqual(session.report()["stored_bytes"], 64 << 20)
        self.assertGreater(len(turns), 2)  # one may come after the wait

    def test_threads_that_unpack_and_threads_that_drop_never_wait_for_each_other(self):
        """One thread in an operator lets tensors go whose Python objects end with them; the other asks for such
        tensors under Python's lock. A hang is found by the time limit of this test's process."""
        script = f"""
import faulthandler, sys, threading
faulthandler.dump_traceback_later(600, exit=True)
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import spillway, torch
import as_plain as here

class Reads(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward((x > 0).float(), (x > 1).float())
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0] + ctx.saved_tensors[1]

session = spillway.session(torch.nn.Linear(2, 2), device_budget="16MiB", nvme={self.folder!r})
with session:
    losses = []
    x = torch.randn(here.ROWS, here.ROWS, requires_grad=True)
    for _ in range(12):
        y = Reads.apply(x.sin()).cos()
        [y.grad_fn._saved_self, y.grad_fn.next_functions[0][0].saved_tensors]
        losses.append(y.sum())
    def backward():
        for loss in reversed(losses[1:]):
            loss.backward(retain_graph=True)
    thread = threading.Thread(target=backward)
    thread.start()
    while thread.is_alive():
        here.push()
    thread.join()
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
