# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a session refuses: in one line, as an error of a type of ours, and training goes on afterwards."""

import contextlib
import inspect
import os
import pathlib
import pickle
import sys
import threading
import unittest
import unittest.mock
from typing import Any

import numpy
import spillway
import torch
from spillway._callback import Training

from small_training import Train, batch, model


class Refusals(Train):
    def refused(self, kind: type, words: str, call, *arguments, **options) -> Exception:
        with self.assertRaises(kind) as raised:
            call(*arguments, **options)
        self.assertIn(words, str(raised.exception))
        self.assertEqual(len(str(raised.exception).splitlines()), 1)
        self.assertEqual(self.trained(model()), self.plain)
        return raised.exception

    def test_options_that_cannot_be(self):
        net = model()
        for too_few in ("12", 1):
            small = self.refused(spillway.BudgetError, f"device_budget: {too_few} is less than 4 KiB, one page", self.open, net,
                                 too_few)
            self.assertEqual((small.option, small.code, small.number, small.bound),
                             ("device_budget", "below_least", int(too_few), 4096))
        for none in ("", None):
            no_budget = self.refused(spillway.OptionError, "expected bytes", self.open, net, none)
            self.assertNotIsInstance(no_budget, torch.OutOfMemoryError, "a smaller batch would not help")
        for odd in (float("nan"), float("inf"), 0.5, True, object()):
            with self.assertRaisesRegex(spillway.OptionError, "device_budget: "):
                self.open(net, odd)
        for odd in (0, "0", " 0 ", "0%", "0MiB"):
            zero = self.refused(spillway.OptionError, "' must be greater than 0; write bytes, such as", self.open, net, odd)
            self.assertNotIsInstance(zero, torch.OutOfMemoryError, "a smaller batch would not help")
        for folder, why in (("", "the path of the folder is empty"), (5, "expected the path of a folder, got 5"),
                            (b"/", "expected the path of a folder")):
            with self.assertRaisesRegex(spillway.OptionError, f"nvme: {why}"):
                self.open(net, nvme=folder)
        self.open(net, numpy.int64(64 << 20)).close()
        taken = sum(p.nbytes for p in net.parameters())
        self.refused(spillway.BudgetError, f"({taken} bytes), and the budget is", self.open, net, taken - 4096)
        for odd, why in (("0.5", "is less than one byte; write it as 600MiB, or a share, such as 80%"), (-5, "is negative")):
            self.refused(spillway.OptionError, f"device_budget: '{odd}' {why}", self.open, net, odd)
        self.refused(spillway.OptionError, "min_tensor_bytes: '80%' is a share, which cannot be given here", self.open, net,
                     min_tensor_bytes="80%")
        much = self.refused(spillway.OptionError, "device_budget: 'much' is not a size", self.open, net, "much")
        self.assertNotIsInstance(much, torch.OutOfMemoryError, "a smaller batch would not help")
        self.assertEqual((much.code, much.number, much.bound), ("not_a_size", None, None))
        for large in ("9EiB", 10**30, "1e400"):
            self.refused(spillway.OptionError, f"device_budget: '{large}' is too large; a size is at most 9 EB", self.open, net,
                         large)
        for option, odd, why in (("min_tensor_bytes", 0.5, "0.5 is not a number of bytes; write a text like '16GiB'"),
                                 ("nvme_rate", float("inf"), "inf is not a number of bytes; write a text like '16GiB'"),
                                 ("rounding_seed", 2**63, "the number is too large; the most is 2**63 - 1"),
                                 ("rounding_seed", 10**5000, "the number is too large; the most is 2**63 - 1"),
                                 ("policy", "\ud800", "unknown policy '\\ud800'"), ("codec", "\ud800", "\\ud800: no such codec"),
                                 ("min_tensor_bytes", 10**5000, "the number is too large; a size is at most 9 EB"),
                                 ("timeline", "a\0b", "the path 'a\\x00b' has a null byte")):
            refused = self.refused(spillway.OptionError, f"{option}: {why}", self.open, net, **{option: odd})
            self.assertFalse(str(refused).endswith("80%'"))
        self.open(net, "1PiB", host_budget=0).close()  # to measure: more than training can take
        self.refused(spillway.BudgetError, "nvme_budget: it needs nvme=, which is not set", self.open, net, nvme=None,
                     nvme_budget="1GiB")
        nothing = self.refused(spillway.OptionError, "nvme_budget: '0' must be greater than 0", self.open, net, nvme_budget=0)
        self.assertNotIsInstance(nothing, torch.OutOfMemoryError, "a smaller batch would not help")
        self.open(net, host_budget=0).close()
        for wrong, what in ((None, "model: expected a torch.nn.Module, got NoneType"), (len, "model: ")):
            self.refused(spillway.OptionError, what, self.open, wrong)
        self.refused(spillway.OptionError, "optimizer: ", self.open, net, optimizer="adam")
        self.refused(spillway.OptionError, "optimizer: ", self.open, net, optimizer=net.parameters())
        self.refused(spillway.OptionError, "policy: expected a name, got None", self.open, net, policy=None)
        self.refused(spillway.OptionError, "nvme: ", self.open, net, nvme=self.folder + "/absent")
        self.refused(spillway.OptionError, "policy: ", self.open, net, policy="best")
        self.assertTrue(issubclass(spillway.BudgetError, torch.OutOfMemoryError))
        self.assertTrue(issubclass(spillway.OptionError, ValueError))

    def test_a_budget_for_a_drive_that_has_less_free(self):
        net = model()
        for much, shown in (("900TiB", "900.0 TiB"), ("1PiB", "1.0 PiB"), (1 << 50, "1.0 PiB")):
            wrong = self.refused(spillway.BudgetError, f"nvme_budget: {shown} (", self.open, net, nvme_budget=much)
            self.assertIn(f"bytes) are asked for, but '{self.folder}' has ", str(wrong))
            self.assertEqual(wrong.code, "above_free")
            self.assertGreater(wrong.number, wrong.bound)
            self.assertRegex(str(wrong), r" has [0-9.]+ [KMGT]iB \([0-9]+ bytes\) free; ask for less, or leave it out for nine tenths of the free "
                                         r"space$")
        self.open(net, nvme_budget="100%").close()

    def test_policies_are_listed_once(self):
        listed = spillway.policies()
        self.assertEqual(listed[0].name, inspect.signature(spillway.session).parameters["policy"].default)
        train = (pathlib.Path(__file__).parents[2] / "docs" / "train.md").read_text()
        systems = (pathlib.Path(__file__).parents[2] / "docs" / "systems.md").read_text()
        for policy in listed:
            if policy.plans or policy.name == "delta":  # more than a line has room for
                self.assertIn(f"`{policy.name}`", systems)
                continue
            self.assertIn(f'"{policy.name}" ({policy.what})', " ".join(spillway.Session.__doc__.split()))
            self.assertIn(f"`{policy.name}` ({policy.what}", train)
        with self.assertRaisesRegex(spillway.OptionError, "choose from " + ".*".join(policy.name for policy in listed)):
            self.open(torch.nn.Linear(2, 2), policy="best")

    def test_an_error_reaches_another_process_whole(self):
        for kind in (spillway.OptionError, spillway.BudgetError):
            there = pickle.loads(pickle.dumps(kind("nvme", "it is full", "above_free", 2, 1)))
            self.assertEqual((type(there), str(there), there.option, there.code, there.number, there.bound),
                             (kind, "nvme: it is full", "nvme", "above_free", 2, 1))

    def test_a_share_is_of_the_machines_memory(self):
        session = self.open(model(), "50%", nvme_budget="1%")
        half = session.report()["device_limit_bytes"]
        session.close()
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if pathlib.Path("/sys/fs/cgroup/memory.max").exists() or pathlib.Path("/sys/fs/cgroup/memory").exists():
            self.assertLessEqual(half, machine / 2 * 1.001)  # a cgroup may say less
        else:
            self.assertAlmostEqual(half / machine, 0.5, places=2)
        session = self.open(model(), "25%")
        self.assertAlmostEqual(session.report()["device_limit_bytes"] * 2 / half, 1, places=3)

    def test_parameters_that_leave_nothing_of_the_budget(self):
        self.refused(spillway.BudgetError, "device_budget: ", self.open, model(), "1MiB")
        try:
            self.open(model(), "1MiB")
        except spillway.BudgetError:  # which keeps the frame of that call
            self.assertEqual(self.trained(model()), self.plain)

    def test_words_that_are_no_options(self):
        with unittest.mock.patch("sys.unraisablehook") as unraisable:
            with self.assertRaisesRegex(TypeError, "offload"):
                spillway.session(torch.nn.Linear(2, 2), device_budget="8MiB", offload=True)
            for wrong, nearest in (("budget", "device_budget, host_budget"), ("nvm", "nvme,"), ("polcy", "policy$")):
                with self.assertRaisesRegex(TypeError, f"no option '{wrong}'; it has {nearest}"):
                    spillway.session(torch.nn.Linear(2, 2), **{wrong: "8MiB"})
            for unnamed, named in (("8MiB", "'8MiB'"), (8 << 20, "8388608"), (torch.optim.SGD(model().parameters()), "'16GiB'")):
                with self.assertRaisesRegex(TypeError, f"takes all but the model by name, such as device_budget={named}$"):
                    spillway.session(torch.nn.Linear(2, 2), unnamed)
            with self.assertRaisesRegex(TypeError, "Training has no option 'budget'; it has device_budget, host_budget"):
                Training(budget="8MiB")
            with self.assertRaises(TypeError) as raised:
                Training(e=1)
            self.assertNotIn("self", str(raised.exception))
        unraisable.assert_not_called()

    def test_a_subclass_may_have_options_of_its_own(self):
        class Named(spillway.Session):
            def __init__(self, model: torch.nn.Module, name: str, **options: Any) -> None:
                super().__init__(model, **options)
                self.name = name

        session = Named(torch.nn.Linear(2, 2), name="mine", device_budget="8MiB", nvme=self.folder)
        self.sessions.append(session)
        self.assertEqual(session.name, "mine")

    def test_a_session_prints_what_it_is(self):
        session = self.open(torch.nn.Linear(2, 2), "8MiB")
        self.assertEqual(repr(session), "<spillway session of a Linear on cpu, open>")
        with session:
            self.assertIn("entered", repr(session))
        session.close()
        self.assertIn("closed", repr(session))

    def test_a_model_that_was_moved(self):
        net = model()
        session = self.open(net, "64MiB")
        net.to("meta")
        self.refused(spillway.OptionError, "model: it was on cpu", session.start)
        session.close()

    def test_a_session_entered_twice_closed_or_elsewhere(self):
        session = self.open(model(), "64MiB")
        with session:
            self.refused(spillway.StateError, "entered already", session.start)
            self.refused(spillway.StateError, "leave it before it is closed", session.close)
        self.refused(spillway.StateError, "not started", session.stop)
        inner = self.open(model(), "64MiB")
        session.start()
        inner.start()
        self.refused(spillway.StateError, "inside this one first", session.stop)
        inner.stop()
        session.stop()
        failures = []

        def elsewhere():
            for called in (session.start, session.stop):
                try:
                    called()
                except spillway.StateError as error:
                    failures.append(str(error))

        for inside in (True, False):
            with session if inside else contextlib.nullcontext():
                other = threading.Thread(target=elsewhere)
                other.start()
                other.join()
            self.assertEqual(len(failures), 2, failures)  # outside both are right
        self.assertIn("entered already", failures[0])
        self.assertIn("on the thread that entered it", failures[1])
        session.close()
        self.refused(spillway.StateError, "closed", session.start)

    def test_a_fork(self):
        session = self.open(model(), "64MiB")
        child = os.fork()
        if child == 0:
            code = 7
            try:
                session.start()
            except spillway.StateError as error:
                code = 5 if "fork" in str(error) else 6
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 5)
        session.close()

    def test_out_of_memory_in_forward_is_torchs_and_the_model_trains_on(self):
        net = model()
        session = self.open(net, "4MiB", nvme=None)
        with self.assertRaises(torch.OutOfMemoryError) as raised, session:
            net(batch(0))
        self.assertIn("no host or NVMe budget", str(raised.exception))
        session.close()
        self.assertEqual(self.trained(net), self.plain)

    def test_a_reload_without_room_has_the_words_that_batch_size_finders_look_for(self):
        leaf = torch.ones(1 << 18, requires_grad=True)
        session = self.open(torch.nn.Module(), "4MiB")
        with session:
            result = leaf
            for _ in range(12):
                result = result.sin()
            loss = result.sum()
            del result
            rest = torch.empty((3 << 20) + (1 << 19), dtype=torch.uint8)
        with self.assertRaisesRegex(torch.OutOfMemoryError, "DefaultCPUAllocator: can't allocate memory"):
            loss.backward()  # the last sine asks for what it saved
        del rest

    def test_a_write_in_place_raises_torchs_words(self):
        net = model()
        session = self.open(net)
        with session:
            hidden = net[0](batch(0))
            loss = hidden.sigmoid().square().mean() + hidden.square().mean()
            hidden.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()
        session.close()


if __name__ == "__main__":
    unittest.main()
