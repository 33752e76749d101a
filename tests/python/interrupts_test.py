# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Signals that come while a Function waits for the disk: what their handlers raise reaches the program as it is."""

import ctypes
import signal
import sys
import threading
import unittest

import torch

import same_bits

ROWS = 512  # a tensor of 1 MiB
RAISED = (KeyboardInterrupt(), SystemExit(3), TimeoutError("the deadline has passed"))


class Slotted(torch.Tensor):
    __slots__ = ("scale",)


class Own(torch.Tensor):
    pass


def saved_by(ctx):
    return ctx.saved_tensors


def waits(thread: threading.Thread) -> bool:
    """Whether it waits for a saved tensor: nothing else in that line lets another thread run."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is saved_by.__code__ and frame.f_lineno > saved_by.__code__.co_firstlineno


class Wait(torch.autograd.Function):
    """Its backward asks for a tensor that takes the disk half a second, and then for `second`."""

    seconds = 0.0

    @staticmethod
    def forward(ctx, x, second):
        mask = (x > 0).float()
        mask.scale = 2.0
        ctx.save_for_backward(mask, second)
        return x * second.as_subclass(torch.Tensor)

    @staticmethod
    def backward(ctx, gradient):
        if Wait.seconds:
            signal.setitimer(signal.ITIMER_REAL, Wait.seconds)
        mask, second = saved_by(ctx)
        return gradient * mask * mask.scale * (second * second.scale).as_subclass(torch.Tensor), None


def push() -> None:
    """Saves more than the budget holds."""
    x = torch.ones(ROWS, ROWS, requires_grad=True)
    for _ in range(14):
        x = (x * 1.01).sin()


class Interrupts(same_bits.Case):
    def setUp(self) -> None:
        super().setUp()
        self.raised: BaseException | None = None
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, self.on_alarm))
        self.addCleanup(setattr, Wait, "seconds", 0.0)

    def on_alarm(self, *_: object) -> None:
        if self.raised is not None:
            raise self.raised

    def backward(self, kind: type, raised: BaseException | None) -> list[str]:
        """The gradient, after a backward in which the signal came."""
        x = same_bits.noise(ROWS, ROWS).requires_grad_()
        y = x * 2
        second = (y * 0.5).as_subclass(kind)
        second.scale = 3.0
        out = Wait.apply(y, second)
        del y, second
        push()
        if raised is not None:
            self.raised, Wait.seconds = raised, 0.1
            with self.assertRaises(type(raised)) as caught:
                out.sum().backward(retain_graph=True)
            self.assertIs(caught.exception, raised)
            raised.__traceback__ = None  # whose frames hold tensors
            Wait.seconds, x.grad = 0.0, None
        out.sum().backward()
        return same_bits.bits([x.grad])

    def test_what_a_handler_raises_while_a_function_waits_reaches_the_program(self):
        for kind in (torch.Tensor, Own, Slotted):
            plain = self.backward(kind, None)
            session = self.open(torch.nn.Linear(2, 2), "14MiB", nvme_rate="4MiB")
            for raised in RAISED:
                with self.subTest(kind=kind.__name__, raised=raised), session:
                    self.assertEqual(self.backward(kind, raised), plain)
            self.assertGreater(session.report()["loaded_bytes"], 0)
            session.close()

    def test_a_handler_that_raises_nothing_changes_nothing(self):
        plain = self.backward(Slotted, None)
        session = self.open(torch.nn.Linear(2, 2), "14MiB", nvme_rate="8MiB")
        Wait.seconds = 0.05
        with session:
            self.assertEqual(self.backward(Slotted, None), plain)

    def test_what_another_thread_raises_in_one_that_waits_reaches_that_one(self):
        class Stop(Exception):
            pass

        seen: list[BaseException] = []

        def backward() -> None:
            try:
                with session:
                    self.backward(Slotted, None)
            except Exception as raised:
                seen.append(raised)

        session = self.open(torch.nn.Linear(2, 2), "14MiB", nvme_rate="2MiB")
        thread = threading.Thread(target=backward)
        thread.start()
        while thread.is_alive() and not waits(thread):
            thread.join(0.001)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stop))
        thread.join()
        self.assertEqual([type(raised) for raised in seen], [Stop])


    def test_an_interrupt_while_the_session_is_left_leaves_it(self):
        session = self.open(torch.nn.Linear(8, 8), "64MiB")

        def interrupt(frame, _event, _argument):
            if frame.f_code.co_name == "_leave":
                sys.settrace(None)
                raise KeyboardInterrupt

        for _ in range(2):
            with self.assertRaises(KeyboardInterrupt), session:
                session._model(same_bits.noise(8, 8)).sum().backward()
                sys.settrace(interrupt)
        with session:
            session._model(same_bits.noise(8, 8)).sum().backward()
        session.close()


if __name__ == "__main__":
    unittest.main()
