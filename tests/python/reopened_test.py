# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Several open sessions of one model: which of them takes part in an optimizer's step."""

import contextlib
import gc
import unittest
import warnings
import weakref
from typing import Any
from unittest import mock

import spillway
import torch
from spillway import _update

import same_bits

WIDTH = 512  # a layer of 1 MiB
SMALL, LARGE = "20MiB", "128MiB"  # with AdamW, 6 layers take 24 MiB and more


def model() -> torch.nn.Module:
    return same_bits.seeded(lambda: torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(6))))


def train(net: torch.nn.Module, optimizer: torch.optim.Optimizer, session: Any) -> float:
    with session:
        loss = net(same_bits.noise(64, WIDTH)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


class Reopened(same_bits.Case):
    def test_a_retry_with_a_larger_budget_while_a_traceback_keeps_the_session(self):
        """As in a notebook, where the last error is kept, with the frames that hold the first session."""
        for state_is_there in (False, True):
            net = model()
            optimizer = torch.optim.AdamW(net.parameters())
            if state_is_there:
                train(net, optimizer, contextlib.nullcontext())
            session = spillway.session(net, device_budget=SMALL, nvme=self.folder)
            kept = None
            try:
                train(net, optimizer, session)
            except torch.OutOfMemoryError as error:
                kept = error
            del session
            self.assertIsNotNone(kept)
            if not state_is_there:  # torch leaves half of it where its first step runs out of memory
                optimizer = torch.optim.AdamW(net.parameters())
            session = self.open(net, LARGE)
            losses = [train(net, optimizer, session) for _ in range(3)]
            self.assertLess(losses[2], losses[0])
            self.assertGreater(session.report()["device_peak_by_phase"]["update"], 24 << 20)
            session.close()

    def test_a_step_that_does_not_fit_is_refused_each_time(self):
        net = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        net.weight.grad = torch.ones_like(net.weight)
        optimizer.step()
        momentum = optimizer.state_dict()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        gc.collect()
        self.open(net, "2560KiB")  # the weight, its gradient and its momentum take 3 MiB
        optimizer.load_state_dict(momentum)
        before = net.weight.detach().clone()
        for _ in range(3):
            with self.assertRaises(spillway.BudgetError):
                optimizer.step()
        self.assertTrue(torch.equal(net.weight, before))

    def test_state_counts_in_each_of_two_sessions_that_accumulate_one_gradient(self):
        net = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        optimizer = torch.optim.Adam(net.parameters())
        sessions = [self.open(net, LARGE), self.open(net, LARGE)]
        for _ in range(2):
            for session in sessions:
                with session:
                    loss = net(same_bits.noise(64, WIDTH)).square().mean()
                loss.backward()
            optimizer.step()
        for session in sessions:
            with session:
                net(same_bits.noise(64, WIDTH))
            self.assertGreaterEqual(session._runtime.owned_bytes()["optimizer_state"], 2 * net.weight.nbytes)

    def test_a_script_whose_path_is_no_text(self):
        net = torch.nn.Linear(4, 4)
        code = compile("session = spillway.session(net, device_budget='1MiB', nvme=folder)", "a\udcff.py", "exec")
        names = {"spillway": spillway, "net": net, "folder": self.folder}
        exec(code, names)
        names["session"].close()

    def test_a_forgotten_one_that_was_never_entered(self):
        net = model()
        optimizer = torch.optim.AdamW(net.parameters())
        for budgets in ((SMALL, LARGE), (LARGE, SMALL)):
            sessions = [self.open(net, budget) for budget in budgets]
            used = sessions[budgets.index(LARGE)]
            forgotten = sessions[budgets.index(SMALL)]
            for _ in range(2):
                train(net, optimizer, used)
            self.assertGreater(used.report()["device_peak_by_phase"]["update"], 0)
            self.assertEqual(forgotten.report()["device_peak_by_phase"]["update"], 0)

    def test_one_of_a_part_of_the_model_and_one_of_all(self):
        net = model()
        optimizer = torch.optim.AdamW(net.parameters())
        part, whole = self.open(net[:3], LARGE), self.open(net, LARGE)
        train(net, optimizer, whole)
        self.assertEqual(part.report()["device_peak_by_phase"]["update"], 0)

    def test_those_of_two_models_both_take_part_in_the_step_of_one_optimizer(self):
        nets = model(), model()
        sessions = [self.open(net, LARGE) for net in nets]
        optimizer = torch.optim.AdamW([parameter for net in nets for parameter in net.parameters()])
        for net, session in zip(nets, sessions, strict=True):
            with session:
                net(same_bits.noise(64, WIDTH)).square().mean().backward()
        optimizer.step()
        for session in sessions:
            self.assertGreater(session.report()["device_peak_by_phase"]["update"], 0)

    def test_the_outer_one_judges_after_nested_ones_were_left(self):
        net = model()
        optimizer = torch.optim.AdamW(net.parameters())
        outer, inner = self.open(net, LARGE), self.open(net, LARGE)
        with outer:
            hidden = net[:3](same_bits.noise(64, WIDTH))
            with inner:
                loss = net[3:](hidden).square().mean()
        loss.backward()
        optimizer.step()
        self.assertGreater(outer.report()["device_peak_by_phase"]["update"], 0)
        self.assertEqual(inner.report()["device_peak_by_phase"]["update"], 0)

    def test_state_that_exists_counts_from_the_opening_on(self):
        net = model()
        optimizer = torch.optim.AdamW(net.parameters())
        train(net, optimizer, contextlib.nullcontext())
        with self.assertRaisesRegex(spillway.BudgetError, "the budget is 16.0 MiB") as raised:
            spillway.session(net, device_budget="16MiB", nvme=self.folder)
        self.assertEqual((raised.exception.code, raised.exception.bound), ("below_owned", 16 << 20))
        self.assertGreaterEqual(raised.exception.number, 18 << 20)
        session = self.open(net, LARGE)
        with session:
            net(same_bits.noise(64, WIDTH)).sum().backward()
        self.assertGreaterEqual(session.report()["device_peak_by_phase"]["setup"], 18 << 20)
        session.close()

    def test_state_that_is_loaded_before_the_first_entry_counts_there(self):
        net = model()
        optimizer = torch.optim.AdamW(net.parameters())
        train(net, optimizer, contextlib.nullcontext())
        saved = optimizer.state_dict()
        optimizer = torch.optim.AdamW(net.parameters())
        gc.collect()
        session = spillway.session(net, device_budget="16MiB", nvme=self.folder)
        self.addCleanup(session.close)
        optimizer.load_state_dict(saved)
        with self.assertRaisesRegex(spillway.BudgetError, "the budget is 16.0 MiB"):
            session.start()

    def test_state_of_others_does_not_count(self):
        other = model()
        optimizer = torch.optim.AdamW(other.parameters())
        train(other, optimizer, contextlib.nullcontext())
        self.open(model(), "16MiB").close()
        self.assertTrue(optimizer.state)

    def test_state_that_a_budget_does_not_hold_stops_a_step_before_it_changes_anything(self):
        net = model()
        optimizer = torch.optim.AdamW(net.parameters())
        train(net, optimizer, contextlib.nullcontext())
        saved = optimizer.state_dict()
        before = same_bits.bits(net.parameters())
        optimizer = torch.optim.AdamW(net.parameters())
        gc.collect()
        session = spillway.session(net, device_budget="16MiB", nvme=self.folder)
        self.addCleanup(session.close)
        with session:
            pass
        optimizer.load_state_dict(saved)
        with self.assertRaisesRegex(spillway.BudgetError, rf"the budget is 16.0 MiB.*opened at .*{__file__.split('/')[-1]}:\d+") as raised:
            train(net, optimizer, session)
        self.assertEqual((raised.exception.code, raised.exception.bound), ("below_owned", 16 << 20))
        self.assertEqual(same_bits.bits(net.parameters()), before)

    def test_two_in_turn_are_not_warned_of(self):
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        sessions = [self.open(net, LARGE) for _ in range(2)]
        with warnings.catch_warnings():
            warnings.simplefilter("error", spillway.SpillwayWarning)
            for _ in range(4):
                for session in sessions:
                    with session:
                        loss = net(same_bits.noise(64, WIDTH)).square().mean()
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()

    def test_one_that_is_closed_before_it_was_entered_is_warned_of_if_something_trained_meanwhile(self):
        for trains in (False, True):
            net = model()
            session = self.open(net, LARGE)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if trains:
                    train(net, torch.optim.SGD(net.parameters(), lr=0.01), contextlib.nullcontext())
                session.close()
            ours = [str(each.message) for each in caught if each.category is spillway.SpillwayWarning]
            self.assertEqual(["never entered" in each for each in ours], [True] * trains)

    def test_one_that_another_thread_opens_in_the_middle_of_a_step(self):
        class Grows(weakref.WeakSet):
            has_grown = False

            def __iter__(self):
                if not self.has_grown:
                    self.has_grown = True
                    raise RuntimeError("Set changed size during iteration")
                return super().__iter__()

        net = model()
        session = self.open(net, LARGE)
        with mock.patch.object(_update, "_sessions", Grows([session])):
            train(net, torch.optim.AdamW(net.parameters()), session)
            self.assertTrue(_update._sessions.has_grown)


if __name__ == "__main__":
    unittest.main()
