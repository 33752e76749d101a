# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""An optimizer's step under a budget: a session takes part in it wherever it is called and whoever made it."""

import contextlib
import gc
import os
import sys
import threading
import time
import unittest
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import spillway
import torch
from spillway import _update
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

import same_bits
from cap_test import fits
from layers import loss_of, model


def closure_of(net: torch.nn.Module, session: spillway.Session, optimizer: torch.optim.Optimizer) -> Callable[[], torch.Tensor]:
    """What an optimizer that trains inside its step calls."""
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        with session:
            loss = loss_of(net)
        loss.backward()
        return loss
    return closure


class Update(same_bits.Case):
    def test_an_optimizer_for_each_parameter_does_not_count_all_of_them_at_each_step(self):
        net = model(1)
        session = self.open(net, "64MiB")
        each = [torch.optim.Adam([parameter]) for parameter in net.parameters()]
        counted: list[int] = []
        own = session._own
        session._own = lambda: (counted.append(1), own())[1]
        for step in range(3):
            counted.clear()
            with session:
                loss_of(net).backward()
            for optimizer in each:
                optimizer.step()
        self.assertLessEqual(len(counted), 2, "once there is state, entering counts")

    def train(self, net: torch.nn.Module, optimizer: Any, session: Any, steps: int = 2) -> None:
        for _ in range(steps):
            with session:
                loss = loss_of(net)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    def test_a_step_outside_the_with_is_counted_and_capped(self):
        net = model()
        session = self.open(net, "20MiB")  # 6 of parameters, 6 of gradients, 12 of state
        with self.assertRaisesRegex(torch.OutOfMemoryError, "step 1, update: aten::"):
            self.train(net, torch.optim.AdamW(net.parameters()), session)
        gc.collect()
        self.assertTrue(fits(), "a step that raised caps nothing")
        session.close()

        session = self.open(model(), "1TiB")
        self.train(session._model, torch.optim.AdamW(session._model.parameters()), session)
        report = session.report()
        self.assertGreater(report["device_peak_bytes"], 24 << 20)
        self.assertGreater(report["device_peak_by_phase"]["update"], 24 << 20)

    def test_a_step_that_raised_caps_nothing_whoever_keeps_its_error(self):
        kept = []

        def fails() -> None:
            net = model(1)
            session = self.open(net, "20MiB")
            with session:
                loss = loss_of(net)
            loss.backward()

            def closure() -> float:
                self.assertFalse(fits(), "the step itself is capped")
                raise ValueError("planned")

            try:
                torch.optim.SGD(net.parameters(), lr=0.1).step(closure)
            except ValueError as error:
                kept.append(error)

        fails()
        self.assertTrue(fits())

    def test_an_optimizer_inside_an_optimizer(self):
        net = model(1)
        inner = torch.optim.SGD(net.parameters(), lr=0.1)
        capped = []

        class Outer(torch.optim.Optimizer):
            def __init__(self, parameters: Any) -> None:
                super().__init__(parameters, {"lr": 0.1})

            def step(self, closure: Any = None) -> None:
                capped.append(not fits())
                inner.step()
                capped.append(not fits())

        session = self.open(net, "20MiB")
        outer = Outer(net.parameters())
        with session:
            loss = loss_of(net)
        loss.backward()
        del loss
        outer.step()
        self.assertEqual(capped, [True, True])
        self.assertTrue(fits())

    def test_state_that_is_of_no_parameter(self):
        for value in (torch.tensor([0]), 1, [torch.zeros(2)]):
            class Counts(torch.optim.SGD):
                def step(self, closure: Any = None, value: Any = value) -> None:
                    self.state["k"] = value
                    super().step()

            net = model(1)
            session = self.open(net, "64MiB")
            self.train(net, Counts(net.parameters(), lr=0.1), session)
            session.close()

    def test_a_fork_steps_its_own_copy(self):
        net = model(1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        session = self.open(net, "64MiB")

        def fork() -> int:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    optimizer.zero_grad()
                    loss_of(net).backward()
                    optimizer.step()
                    status = 0
                finally:
                    os._exit(status)
            return os.waitpid(child, 0)[1]

        with session:
            loss_of(net).backward()
            self.assertEqual(fork(), 0)
        self.assertEqual(fork(), 0)
        optimizer.step()

    def test_a_session_that_is_closed_while_others_step(self):
        net = model(1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        loss_of(net).backward()
        ends = time.monotonic() + 1.5

        def closes() -> None:
            while time.monotonic() < ends:
                spillway.session(net, device_budget="64MiB", nvme=self.folder).close()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            thread = threading.Thread(target=closes)
            thread.start()
            while thread.is_alive():
                optimizer.step()
            thread.join()
        self.assertTrue(fits())

    def test_the_bits_are_plain_trainings(self):
        for make in (lambda p: torch.optim.AdamW(p), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
                     lambda p: torch.optim.Adam(p, foreach=True), lambda p: torch.optim.AdamW(p, fused=True)):
            plain, net = model(), model()
            optimizer = make(plain.parameters())
            for _ in range(3):
                loss_of(plain).backward()
                optimizer.step()
                optimizer.zero_grad()
            session = self.open(net, "40MiB")
            self.train(net, make(net.parameters()), session, steps=3)
            self.assertEqual(same_bits.bits(net.parameters()), same_bits.bits(plain.parameters()))
            session.close()

    def test_state_counts_afterwards_and_is_never_moved(self):
        net = model()
        session = self.open(net, "40MiB")
        optimizer = torch.optim.AdamW(net.parameters())
        self.train(net, optimizer, session, steps=1)
        with session:
            loss_of(net).backward()
        self.assertGreater(session.report()["device_peak_by_phase"]["forward"], 18 << 20)

    def test_a_closure_that_trains_inside_the_step(self):
        net = model(2)
        session = self.open(net, "1TiB")
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
        closure = closure_of(net, session, optimizer)
        first = optimizer.step(closure).item()
        self.assertLess(optimizer.step(closure).item(), first)
        self.assertGreater(session.report()["device_peak_by_phase"]["update"], 0)

    def test_inside_the_with_under_a_scaler_and_with_a_scheduler(self):
        net = model(2)
        session = self.open(net, "1TiB")
        optimizer = torch.optim.AdamW(net.parameters())
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(2):
            with session:
                scaler.scale(loss_of(net)).backward()
                scaler.step(optimizer)
                scaler.update()
            scheduler.step()
        report = session.report()
        self.assertGreater(report["device_peak_by_phase"]["update"], 6 << 20)
        self.assertGreater(report["device_peak_by_phase"]["backward"], 0)

    def test_another_models_step_is_no_concern(self):
        net, other = model(1), model(2)
        session = self.open(net, "8MiB")
        loss_of(other).backward()
        torch.optim.AdamW(other.parameters()).step()
        self.assertEqual(session.report()["device_peak_by_phase"]["update"], 0)

    def test_two_sessions_of_one_model(self):
        net = model(1)
        one, two = self.open(net, "1TiB"), self.open(net, "1TiB")
        optimizer = torch.optim.AdamW(net.parameters())
        self.train(net, optimizer, one, steps=1)
        self.train(net, optimizer, two, steps=1)
        self.assertGreater(one.report()["device_peak_by_phase"]["update"], 0)
        self.assertGreater(two.report()["device_peak_by_phase"]["update"], 0)

    def test_an_optimizer_that_is_not_torchs_is_warned_of_once(self):
        net = model(1)
        session = self.open(net, "1TiB")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                with session:
                    loss_of(net).backward()
                with torch.no_grad():
                    for parameter in net.parameters():
                        parameter -= parameter.grad
        ours = [str(each.message) for each in caught if each.category is spillway.SpillwayWarning]
        self.assertEqual(len(ours), 1, ours)
        self.assertIn("something other than a torch.optim optimizer", ours[0])
        self.assertEqual([each.filename for each in caught if str(each.message) == ours[0]], [__file__])

    def test_a_state_that_was_loaded_is_no_update_nor_is_what_lbfgs_does_around_its_closure(self):
        net = model(1)
        session = self.open(net, "1TiB")
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
        closure = closure_of(net, session, optimizer)
        state = {name: value.clone() for name, value in net.state_dict().items()}

        with warnings.catch_warnings():
            warnings.simplefilter("error", spillway.SpillwayWarning)
            for _ in range(2):
                with session:
                    loss_of(net).backward()
                net.load_state_dict(state)
                optimizer.step(closure)

    def test_a_step_that_raises_where_torch_records_no_steps_caps_nothing_afterwards(self):
        net = model(1)
        session = self.open(net, "16MiB")
        with session:
            loss_of(net).backward()

        class Fails(torch.optim.SGD):
            def step(self, closure=None):
                raise ValueError("in the step")

        optimizer = Fails(net.parameters(), lr=0.1)
        before = torch.autograd._enable_record_function
        before(False)
        self.addCleanup(before, True)
        unraised = []
        hook, sys.unraisablehook = sys.unraisablehook, unraised.append
        self.addCleanup(setattr, sys, "unraisablehook", hook)
        with self.assertRaises(ValueError):
            optimizer.step()
        gc.collect()
        self.assertEqual(unraised, [])
        self.assertTrue(fits())

    def test_a_first_step_runs_nothing_that_others_could_see(self):
        """Neither hooks for all optimizers, nor modes, nor the profiler."""
        class Counts(TorchDispatchMode):
            calls = 0

            def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                Counts.calls += 1
                return operator(*args, **(kwargs or {}))

        def seen() -> tuple[Any, ...]:
            net, counts, hooked = model(1), Counts(), []
            optimizer = torch.optim.Adam(net.parameters())
            session = self.open(net, "64MiB") if is_open else contextlib.nullcontext()
            with session:
                loss = loss_of(net)
            loss.backward()
            Counts.calls = 0
            handles = [register_optimizer_step_pre_hook(lambda *hook: hooked.append(hook[0])),
                       register_optimizer_step_post_hook(lambda *hook: hooked.append(hook[0]))]
            with torch.profiler.profile() as profile, counts:
                optimizer.step()
            for handle in handles:
                handle.remove()
            steps = sum(event.name.startswith("Optimizer.step") for event in profile.events())
            return Counts.calls, steps, [each is optimizer for each in hooked]

        is_open = False
        plain = seen()
        is_open = True
        self.assertEqual(seen(), plain)

    def test_state_that_is_to_come_is_what_comes(self):
        """Where it is known; a new version of torch may keep more."""
        # Adagrad has its state before the first step.
        unknown = {torch.optim.Adafactor, torch.optim.Adagrad, torch.optim.LBFGS, torch.optim.SparseAdam}
        options: dict[Any, list[dict[str, Any]]] = {
            torch.optim.SGD: [{}, {"momentum": 0.9}], torch.optim.RMSprop: [{}, {"momentum": 0.9}, {"centered": True}],
            torch.optim.Adam: [{}, {"amsgrad": True}], torch.optim.AdamW: [{}, {"amsgrad": True}]}
        kinds = {kind for kind in vars(torch.optim).values()
                 if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)}
        for kind in sorted(kinds - unknown - {torch.optim.Optimizer}, key=lambda kind: kind.__name__):
            for more in options.get(kind, [{}]):
                with self.subTest(kind=kind.__name__, **more):
                    net = model(2)
                    first, second = net.parameters()
                    # Of groups, options are what counts, and defaults are not; without a gradient there is no state.
                    optimizer = kind([{"params": [first], **more}, {"params": [second]}], lr=0.01)
                    first.grad = torch.ones_like(first)
                    coming = _update._coming_state_bytes(optimizer)
                    optimizer.step()
                    large = sum(state.nbytes for state in optimizer.state[first].values()
                                if isinstance(state, torch.Tensor) and state.shape == first.shape)
                    self.assertEqual(coming, large)
                    self.assertEqual(_update._coming_state_bytes(optimizer), 0 if large else coming)

        class Mine(torch.optim.Adam):
            pass

        first.grad = torch.ones_like(first)
        self.assertEqual(_update._coming_state_bytes(Mine([first])), 0, "nobody knows")

    def test_a_step_whose_session_goes_with_it_says_nothing(self):
        class Holder:  # as a session is
            def _update_ends(self) -> None:
                raise AssertionError("it is gone")

        unraised = []
        hook, sys.unraisablehook = sys.unraisablehook, unraised.append
        self.addCleanup(setattr, sys, "unraisablehook", hook)
        held, arguments = Holder(), _update._Arguments(())
        arguments.waiting = weakref.WeakSet([held])
        held.arguments, arguments.held = arguments, held  # collected at once
        del held, arguments
        gc.collect()
        self.assertEqual(unraised, [])

    def test_a_session_that_is_gone_hears_nothing(self):
        net = model(1)
        session = self.open(net, "4MiB")
        with session:
            loss_of(net).backward()
        session.close()
        torch.optim.AdamW(net.parameters()).step()
        self.assertTrue(fits())


if __name__ == "__main__":
    unittest.main()
