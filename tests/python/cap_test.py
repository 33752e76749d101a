# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Whom a session's cap holds for, and until when."""

import gc
import os
import pathlib
import threading
import unittest
from collections.abc import Callable
from typing import Any

import spillway
import torch

import same_bits

BUDGET = "16MiB"
MUCH = 32 << 20  # bytes: more than the budget


def fits() -> bool:
    """Whether the calling thread may allocate more than the budget."""
    try:
        torch.empty(MUCH, dtype=torch.uint8)
    except torch.OutOfMemoryError:
        return False
    return True


class Looks(torch.autograd.Function):
    """Its backward notes whether the thread that runs it may."""

    @staticmethod
    def forward(ctx, x, found):
        ctx.found = found
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.found.append(fits())
        return gradient, None


def in_a_thread(body: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(body()))
    thread.start()
    thread.join()
    return found[0]


def convolution_that_runs_out(session: Any) -> None:
    with session:
        x = torch.ones(8, 16, 64, 64, requires_grad=True)
        layers = [torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(3)]
        y = x
        for layer in layers:
            y = layer(y).relu()
        loss = y.sum()
    hog = []
    y.register_hook(lambda gradient: hog.append(torch.empty(12 << 20, dtype=torch.uint8)))
    try:
        loss.backward()
    except torch.OutOfMemoryError:
        return
    raise AssertionError("it was to run out of budget")


class Cap(same_bits.Case):
    def session(self, **options: Any) -> Any:
        return self.open(torch.nn.Linear(2, 2), BUDGET, **options)

    def test_it_holds_for_the_thread_that_is_in_it_alone(self):
        session = self.session()
        session.start()
        session.stop()
        inside, leave, found = threading.Event(), threading.Event(), []

        def enter() -> None:
            with session:
                found.append(fits())
                inside.set()
                leave.wait()

        thread = threading.Thread(target=enter)
        thread.start()
        inside.wait()
        try:
            self.assertTrue(fits(), "the thread that opened it, and was in it before")
            self.assertTrue(in_a_thread(fits), "a thread that never was")
        finally:
            leave.set()
            thread.join()
        self.assertEqual(found, [False])

    def test_a_refusal_says_whose_budget_it_is_and_what_ends_it(self):
        with self.session() as session, self.assertRaises(torch.OutOfMemoryError) as refused:
            torch.empty(MUCH, dtype=torch.uint8)
        opened_at = session.last_refusal["opened_at"]
        file, _, line = opened_at.rpartition(":")
        self.assertEqual(os.path.basename(file), "same_bits.py", "where the test opens all")
        self.assertIn("spillway.session(", pathlib.Path(file).read_text().splitlines()[int(line) - 1])
        self.assertIn(f"this is the device_budget of the spillway.session opened at {opened_at}, which its close() ends",
                      str(refused.exception))

    def test_in_a_session_inside_another_it_says_which_of_them(self):
        around = spillway.session(torch.nn.Linear(2, 2), device_budget=BUDGET, nvme=self.folder)
        self.sessions.append(around)
        inside = self.open(torch.nn.Linear(2, 2), "1GiB")
        with around, inside, self.assertRaises(torch.OutOfMemoryError) as refused:
            torch.empty(MUCH, dtype=torch.uint8)
        refusal = inside.last_refusal
        self.assertEqual((refusal["why"], refusal["limit_bytes"]), ("outer_full", 16 << 20))
        self.assertEqual(os.path.basename(refusal["opened_at"].rpartition(":")[0]), "cap_test.py")
        self.assertIn(f"opened at {refusal['opened_at']}", str(refused.exception))

    def test_a_thread_that_was_in_it_is_free_while_another_is(self):
        session = self.session()
        once, other, end, found = threading.Event(), threading.Event(), threading.Event(), []

        def first() -> None:
            with session:
                torch.ones(4, requires_grad=True).sin()
            once.set()
            other.wait()
            found.append(fits())
            end.set()

        thread = threading.Thread(target=first)
        thread.start()
        once.wait()
        with session:
            other.set()
            end.wait()
        thread.join()
        self.assertEqual(found, [True])

    def test_it_holds_for_what_was_recorded_until_that_is_gone(self):
        session = self.session()
        with session:
            loss = torch.ones(64, 64, requires_grad=True).sin().sum()
        self.assertFalse(fits())
        loss.backward()
        self.assertTrue(fits(), "the graph is there, but nothing that it saved")

    def test_it_holds_in_a_backward_of_a_session_that_was_dropped_and_not_after(self):
        found: list[bool] = []
        with self.session():
            loss = Looks.apply(torch.ones(64, 64, requires_grad=True), found).sin().sum()
        self.sessions.clear()
        gc.collect()
        self.assertTrue(fits(), "nobody can reach the session")
        loss.backward()
        self.assertEqual(found, [False])
        self.assertTrue(fits())

    def test_it_holds_for_a_backward_on_another_thread(self):
        found: list[bool] = []
        with self.session():
            loss = Looks.apply(torch.ones(64, 64, requires_grad=True), found).sin().sum()
        in_a_thread(loss.backward)
        self.assertEqual(found, [False])

    def test_after_a_backward_that_ran_out_nothing_is_capped(self):
        convolution_that_runs_out(self.session())
        self.sessions.clear()
        gc.collect()
        self.assertTrue(fits())
        torch.nn.Linear(2048, 2048)(torch.ones(64, 2048)).sum().backward()

    def test_an_error_that_somebody_keeps_caps_nothing(self):
        """As a notebook's last traceback does, with the session, the model and the loss in it."""
        kept: list[BaseException] = []
        large: list[torch.Tensor] = []

        def train(budget: str, fails: bool) -> None:
            session = self.open(torch.nn.Linear(2, 2), budget)
            self.sessions.clear()  # the frame alone has it
            with session:
                hidden = torch.ones(64, 64, requires_grad=True).sin()
                loss = hidden.sin().sum()
                if fails:
                    raise ValueError("in the forward")
            hidden.register_hook(lambda gradient: large.append(torch.empty(MUCH, dtype=torch.uint8)))
            loss.backward()

        for fails in (True, False):
            try:
                train(BUDGET, fails)
            except (ValueError, torch.OutOfMemoryError) as error:
                kept.append(error)
            self.assertTrue(fits(), f"fails in forward: {fails}")
            train("128MiB", False)
        self.assertEqual([type(error) for error in kept], [ValueError, torch.OutOfMemoryError])

    def test_a_refusal_after_the_forward_says_whose_budget_it_is(self):
        session = self.session()
        with session:
            loss = torch.ones(64, 64, requires_grad=True).sin().sum()
        with self.assertRaisesRegex(torch.OutOfMemoryError, "after the forward of step 1: .* session was left"):
            torch.empty(MUCH, dtype=torch.uint8)
        self.assertFalse(fits(), "again")
        del loss
        self.assertTrue(fits())

    def test_a_session_that_was_left_lends_nothing_to_the_next(self):
        first = self.session()
        with first:
            hidden = torch.ones(64, 64, requires_grad=True).sin()
            loss = hidden.sin().sum()
        found = []
        hidden.register_hook(lambda gradient: found.append(fits()))
        with self.open(torch.nn.Linear(2, 2), "128MiB"):
            self.assertTrue(fits())
            torch.ones(8, 8, requires_grad=True).sin().sum().backward()
        self.assertTrue(fits())
        loss.backward()
        self.assertEqual(found, [False], "its own backward is capped")

    def test_a_closed_session_caps_nothing_whatever_graph_is_left(self):
        session = self.session()
        with session:
            loss = torch.ones(64, 64, requires_grad=True).sin().sum()
        session.close()
        self.assertTrue(fits())
        loss.backward()
        self.assertTrue(fits())


if __name__ == "__main__":
    unittest.main()
