# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The package as a script uses it: the same bits as plain training, and errors of a type of ours."""

import contextlib
import inspect
import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import xml.etree.ElementTree

import numpy
import spillway
import torch
import torch.utils.checkpoint

BUILD = pathlib.Path(os.environ["SPILLWAY_BINARY_DIR"])
WIDTH = 256


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]
    return torch.nn.Sequential(*layers)


def batch(step: int) -> torch.Tensor:
    return torch.randn(1024, WIDTH, generator=torch.Generator().manual_seed(step))


def bits(tensors) -> list[bytes]:
    return [tensor.detach().numpy().tobytes() for tensor in tensors]


class Train(unittest.TestCase):
    def setUp(self):
        scratch = BUILD / "scratch"
        scratch.mkdir(exist_ok=True)
        self.folder = tempfile.mkdtemp(dir=scratch)
        self.addCleanup(shutil.rmtree, self.folder)
        self.sessions: list[spillway.Session] = []
        self.plain = self.trained(model())

    def open(self, net: torch.nn.Module, budget: int | str = "12MiB", **options) -> spillway.Session:
        options.setdefault("nvme", self.folder)
        session = spillway.session(net, device_budget=budget, **options)
        self.sessions.append(session)
        return session

    def tearDown(self):
        """A session that a failing case leaves open would cap the next one."""
        for session in self.sessions:
            with contextlib.suppress(spillway.StateError):
                session.close()

    @staticmethod
    def trained(net, step=lambda net, x: net(x).square().mean().backward(), steps=2) -> list[bytes]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for number in range(steps):
            step(net, batch(number))
            optimizer.step()
            optimizer.zero_grad()
        return bits(net.parameters())


class Semantics(Train):
    def test_backward_outside_and_inside_are_plain(self):
        for inside in (False, True):
            net = model()
            session = self.open(net)

            def step(net, x):
                with session:
                    loss = net(x).square().mean()
                    if inside:
                        loss.backward()
                if not inside:
                    loss.backward()
                session.step()

            self.assertEqual(self.trained(net, step), self.plain)
            self.assertGreater(session.report()["stored_bytes"], 8 << 20)
            self.assertLessEqual(session.report()["device_peak_bytes"], 12 << 20)
            session.close()

    def test_start_and_stop_do_as_the_with_statement(self):
        net = model()
        session = self.open(net)

        def step(net, x):
            session.start()
            loss = net(x).square().mean()
            session.stop()
            loss.backward()

        self.assertEqual(self.trained(net, step), self.plain)
        session.close()

    def test_checkpoint_inside_keeps_its_own_tensors(self):
        for reentrant in (False, True):
            net = model()
            session = self.open(net, "24MiB")  # what is made again in backward stays

            def step(net, x):
                with session:
                    half = torch.utils.checkpoint.checkpoint(net[:6], x.requires_grad_(), use_reentrant=reentrant)
                    loss = net[6:](half).square().mean()
                loss.backward()

            self.assertEqual(self.trained(net, step), self.plain, reentrant)
            session.close()

    def test_a_new_session_while_an_older_ones_graph_lives(self):
        plain = model()
        plain(batch(0)).square().mean().backward()
        plain(batch(1)).square().mean().backward()
        net = model()
        first = self.open(net)
        with first:
            loss = net(batch(0)).square().mean()
        second = self.open(net)
        with second:
            other = net(batch(1)).square().mean()
        loss.backward()
        other.backward()
        self.assertEqual(bits(p.grad for p in net.parameters()), bits(p.grad for p in plain.parameters()))
        first.close()
        second.close()

    def test_a_session_inside_another_takes_the_saves_and_both_budgets_hold(self):
        net = model()
        outer, inner = self.open(net, "14MiB"), self.open(net, "40MiB")

        def step(net, x):
            with outer:
                half = net[:6](x)
                saved = outer.report()["saved_tensors"]
                with inner:
                    other = net[6:](half).square().mean()
                self.assertEqual(outer.report()["saved_tensors"], saved)
                loss = other + net[6:](half * 0).square().mean() * 0
            loss.backward()

        def plainly(net, x):
            half = net[:6](x)
            loss = net[6:](half).square().mean() + net[6:](half * 0).square().mean() * 0
            loss.backward()

        self.assertEqual(self.trained(net, step), self.trained(model(), plainly))
        self.assertLessEqual(outer.report()["device_peak_bytes"], 14 << 20)
        self.assertGreater(inner.report()["saved_tensors"], 0)

    def test_the_cap_holds_while_something_is_recorded_and_no_longer(self):
        net = model()
        session = self.open(net)

        def large() -> torch.Tensor:
            return torch.empty(32 << 20, dtype=torch.uint8)

        large()
        with session:
            loss = net(batch(0)).square().mean()
            with self.assertRaises(torch.OutOfMemoryError):
                large()
        with self.assertRaises(torch.OutOfMemoryError):
            large()  # its graph lives
        loss.backward()
        del loss
        large()
        with session, self.assertRaises(torch.OutOfMemoryError):
            large()

    def test_a_graph_that_is_dropped_ends_the_cap_too(self):
        session = self.open(model())
        with session:
            session._model(batch(0))
        torch.empty(32 << 20, dtype=torch.uint8)

    def test_a_thread_started_inside_is_plain(self):
        net = model()
        session = self.open(net, "64MiB")
        with session:
            other = threading.Thread(target=lambda: model()(batch(0)).square().mean().backward())
            other.start()
            other.join()
        self.assertEqual(session.report()["saved_tensors"], 0)
        session.close()

    def test_func_is_left_alone(self):
        net = model()
        session = self.open(net, "64MiB")
        with session:
            got = torch.func.grad(lambda x: net(x).square().mean())(batch(0))
        self.assertEqual(bits([got]), bits([torch.func.grad(lambda x: net(x).square().mean())(batch(0))]))
        session.close()


class Reports(Train):
    def test_a_report_is_a_table_and_json(self):
        net = model()
        session = self.open(net)
        with session:
            net(batch(0)).square().mean().backward()
        report = session.report()
        self.assertIn("stored on NVMe", str(report))
        page = report._repr_html_()
        self.assertTrue(page.startswith("<table"), page)
        self.assertIn(">stored on NVMe</td>", page)
        self.assertEqual(xml.etree.ElementTree.fromstring(page).tag, "table")  # every tag is closed, all else escaped
        self.assertGreater(json.loads(report.to_json())["stored_bytes"], 0)
        session.close()

    def split_of_peak(self, net: torch.nn.Module, batch_of, optimizer: torch.optim.Optimizer) -> dict[str, int]:
        session = self.open(net, "1GiB")
        for step in range(3):
            with session:
                loss = net(batch_of(step)).square().mean()
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        report = session.report()
        session.close()
        split = report["device_peak_split"]
        self.assertEqual(sum(split.values()), report["device_peak_bytes"])
        self.assertEqual(split["parameters"], sum(p.nbytes for p in net.parameters()))
        self.modules = {row["module"]: row["bytes"] for row in report["device_peak_saved_by_module"]}
        self.assertEqual(sum(self.modules.values()), split["saved"])
        self.assertIn("peak     parameters", str(report))
        return split

    def test_the_peak_of_large_activations_is_split_by_module(self):
        net = model()
        split = self.split_of_peak(net, batch, torch.optim.SGD(net.parameters(), lr=0.1))
        self.assertGreaterEqual(split["saved"], 11 << 20)
        self.assertLess(split["other"], 5 << 20)  # the batch, and what backward begins with
        self.assertGreaterEqual(self.modules["4"], 1 << 20, self.modules)

    def test_the_peak_of_an_optimizers_step_has_gradients_and_state(self):
        torch.manual_seed(1)
        net = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4)))
        small = torch.randn(8, 1024)
        split = self.split_of_peak(net, lambda _: small, torch.optim.AdamW(net.parameters(), foreach=True))
        self.assertEqual(split["gradients"], split["parameters"])
        self.assertAlmostEqual(split["optimizer_state"], 2 * split["parameters"], delta=4096)

    def test_explain_names_the_place_and_the_reason(self):
        net = model()
        session = self.open(net)
        with session:
            loss = net(batch(0)).square().mean()
        loss.backward()
        text = session.explain()
        self.assertRegex(text, r"(?m)^2 +2\.weight, saved for the gradient of linear's input +256\.0 KiB +kept: it is the model's")
        self.assertRegex(text, r"(?m)^2 +input of linear \(output of gelu\), saved for its weight's gradient +1\.0 MiB +moved to NVMe, came back")
        self.assertRegex(text, r"saved tensors, .* MiB, of which .* MiB left the device$")
        self.assertLess(len(session.explain("2").splitlines()), len(text.splitlines()))
        self.assertIn("'1': nothing", session.explain("1"))  # a GELU has no parameters
        with self.assertRaisesRegex(spillway.OptionError, "has no 'layers.3'"):
            session.explain("layers.3")

    def test_owned_bytes_are_told_by_kind(self):
        net = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.BatchNorm1d(WIDTH))
        adam = torch.optim.Adam(net.parameters())
        with spillway.session(net, device_budget="64MiB") as session:
            loss = net(batch(0)).square().mean()
        loss.backward()
        adam.step()
        with session:
            net(batch(1))
        weights = 4 * (WIDTH * WIDTH + 3 * WIDTH)
        self.assertEqual(session._runtime.owned_bytes(), {
            "parameter": weights, "gradient": weights, "buffer": 4 * 2 * WIDTH + 8,
            "optimizer_state": 2 * weights + 4 * 4})
        session.close()

    def roles(self, net: torch.nn.Module, forward) -> str:
        """What `explain` says of a forward that is a loss, without places, bytes and fates."""
        session = self.open(net, "64MiB", min_tensor_bytes=1)
        with session:
            loss = forward()
        loss.backward()
        roles = re.findall(r"(?m)^\S+ +(\S.*?, saved for .*?)  +\d", session.explain())
        session.close()
        return "\n".join(roles)

    def test_explain_names_each_tensors_role(self):
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.norm = torch.nn.Embedding(64, 32), torch.nn.LayerNorm(32)
                self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 64)
                self.drop = torch.nn.Dropout(0.5)

            def forward(self, tokens):
                x = self.embed(tokens)
                x = x + self.embed.weight[0]
                q, k, v = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
                y = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
                return self.out(self.drop(torch.tanh(y)))

        for _ in range(20):  # which all watch this thread's operators
            self.open(model())
        net, tokens = Block(), torch.zeros(4, 8, dtype=torch.long)
        told = self.roles(net, lambda: torch.nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten()))
        for role in ("indices of embedding, saved for its backward",
                     "input of layer_norm (output of add), saved for its backward",
                     "norm.weight, saved for the backward of layer_norm",
                     "statistics of layer_norm, saved for its backward",
                     "input of linear (output of layer_norm), saved for its weight's gradient",
                     "qkv.weight, saved for the gradient of linear's input",
                     "input of scaled_dot_product_attention (output of linear), saved for its backward",
                     "output of scaled_dot_product_attention, saved for its backward",
                     "statistics of scaled_dot_product_attention, saved for its backward",
                     "output of tanh, saved for its backward",
                     "mask of dropout, saved for its backward",
                     "input of linear (output of dropout), saved for its weight's gradient",
                     "output of log_softmax in cross_entropy_loss, saved for its backward",
                     "indices of nll_loss in cross_entropy_loss, saved for its backward",
                     "statistics of nll_loss in cross_entropy_loss, saved for its backward"):
            self.assertIn(role, told.splitlines(), told)
        self.assertNotIn("Backward0", told)

    def test_explain_knows_casts_and_functions(self):
        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return 2 * x

            @staticmethod
            def backward(ctx, gradient):
                return 2 * gradient

        net = torch.nn.Linear(32, 32)

        def forward():
            with torch.autocast("cpu", torch.bfloat16):
                return Doubled.apply(net(torch.ones(4, 32, requires_grad=True)).float()).relu().sum()

        told = self.roles(net, forward)
        for role in ("cast of weight, saved for the gradient of linear's input",
                     "input of Doubled (cast of output of linear), saved for its backward",
                     "output of relu, saved for its backward"):
            self.assertIn(role, told.splitlines(), told)

    def test_a_timeline_is_written_when_it_is_asked_for(self):
        net = model()
        session = self.open(net)
        for step in range(2):
            with session:
                loss = net(batch(step)).square().mean()
            loss.backward()
        file = pathlib.Path(self.folder) / "x.json"
        session.timeline(file)
        names = {event["name"] for event in json.loads(file.read_text())["traceEvents"]}
        self.assertTrue(any("store" in name for name in names), names)
        with self.assertRaises(spillway.OptionError):
            session.timeline(self.folder)


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
        self.refused(spillway.BudgetError, "device_budget: ", self.open, net, "12")
        for none in ("", None):
            no_budget = self.refused(spillway.OptionError, "expected bytes", self.open, net, none)
            self.assertNotIsInstance(no_budget, torch.OutOfMemoryError, "a smaller batch would not help")
        for odd in (float("nan"), float("inf"), 0.5, True, object()):
            with self.assertRaisesRegex(spillway.OptionError, "device_budget: "):
                self.open(net, odd)
        for odd in (0, "0", " 0 ", "0.5", "0%", "0MiB"):
            zero = self.refused(spillway.OptionError, "' must be greater than 0; write bytes, such as", self.open, net, odd)
            self.assertNotIsInstance(zero, torch.OutOfMemoryError, "a smaller batch would not help")
        for folder, why in (("", "the path of the folder is empty"), (5, "expected the path of a folder, got 5"),
                            (b"/", "expected the path of a folder")):
            with self.assertRaisesRegex(spillway.OptionError, f"nvme: {why}"):
                self.open(net, nvme=folder)
        self.open(net, numpy.int64(64 << 20)).close()
        much = self.refused(spillway.OptionError, "device_budget: 'much' is not a size", self.open, net, "much")
        self.assertNotIsInstance(much, torch.OutOfMemoryError, "a smaller batch would not help")
        self.refused(spillway.BudgetError, "nvme_budget: it needs nvme=, which is not given", self.open, net, nvme=None,
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

    def test_policies_are_listed_once(self):
        listed = spillway.policies()
        self.assertEqual(listed[0].name, inspect.signature(spillway.session).parameters["policy"].default)
        train = (pathlib.Path(__file__).parents[2] / "docs" / "train.md").read_text()
        for policy in listed:
            self.assertIn(f'"{policy.name}" ({policy.what})', " ".join(spillway.Session.__doc__.split()))
            self.assertIn(f"`{policy.name}` ({policy.what}", train)
        with self.assertRaisesRegex(spillway.OptionError, "known are " + ".*".join(policy.name for policy in listed)):
            self.open(torch.nn.Linear(2, 2), policy="best")

    def test_an_error_reaches_another_process_whole(self):
        for kind in (spillway.OptionError, spillway.BudgetError):
            there = pickle.loads(pickle.dumps(kind("nvme", "it is full")))
            self.assertEqual((type(there), str(there), there.option), (kind, "nvme: it is full", "nvme"))

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
            with self.assertRaises(TypeError):
                spillway.session(torch.nn.Linear(2, 2), "8MiB")
        unraisable.assert_not_called()

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
        self.refused(spillway.StateError, "inside it is left first", session.stop)
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


class Life(Train):
    """Sessions that are entered long, dropped, closed or forked at odd times."""

    def test_a_session_that_is_entered_once_steps(self):
        net = model()
        session = self.open(net)
        session.start()
        seen = []
        for number in range(3):
            net(batch(number)).square().mean().backward()
            seen.append(session.explain().count("\n"))  # of the last forward, not of all since the start
            session.step()
        session.stop()
        self.assertEqual(seen, [seen[0]] * 3)
        self.assertGreater(seen[0], 6)

    def test_a_session_that_is_dropped_while_another_is_entered_inside(self):
        net = model()
        outer = spillway.session(net, device_budget="64MiB", nvme=self.folder)
        inner = self.open(net, "64MiB")
        outer.start()
        inner.start()
        del outer
        before = inner.report()["saved_tensors"]
        net(batch(0)).sum().backward()
        self.assertGreater(inner.report()["saved_tensors"], before)
        inner.stop()
        inner.close()
        self.assertEqual(self.trained(model()), self.plain)

    def test_another_thread_may_close_what_a_thread_never_left(self):
        session = self.open(model(), "64MiB")
        thread = threading.Thread(target=session.start)
        thread.start()
        thread.join()
        session.close()
        self.assertEqual(self.trained(model()), self.plain)

    def test_reports_while_another_thread_closes(self):
        for _ in range(20):
            session = self.open(model(), "64MiB")
            thread = threading.Thread(target=session.close)
            thread.start()
            while thread.is_alive():
                session.report()
            thread.join()
            self.assertEqual(session.report()["saved_tensors"], 0)

    def test_a_child_forked_inside_is_plain(self):
        net = model()
        expected = bits([net(batch(0))])
        session = self.open(net)
        with session:
            loss = net(batch(1)).square().mean()  # most of it is away, some on its way
            child = os.fork()
            if child == 0:
                code = 3
                try:
                    large = torch.zeros(8 << 20)  # more than the budget
                    code = 0 if bits([net(batch(0))]) == expected and large.sum() == 0 else 4
                finally:
                    os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        loss.backward()
        self.assertGreater(session.report()["stored_bytes"], 0)


class Import(unittest.TestCase):
    def test_a_library_that_does_not_load_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "spillway"
            shutil.copytree(BUILD / "python" / "spillway", package, ignore_dangling_symlinks=True,
                            ignore=shutil.ignore_patterns("libspillway.so", "bin"))
            (package / "lib" / "libspillway.so").write_bytes(b"no library")
            done = subprocess.run([sys.executable, "-c", "import spillway"], capture_output=True, text=True,
                                  env=os.environ | {"PYTHONPATH": folder}, check=False, cwd=folder)
        self.assertRegex(done.stderr.splitlines()[-1], "LibraryError: .*libspillway.so does not load beside torch")

    def test_another_torch_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(BUILD / "python" / "spillway", pathlib.Path(folder) / "spillway", ignore_dangling_symlinks=True)
            (pathlib.Path(folder) / "spillway" / "lib" / "torch_version").write_text("1.2.3\n")
            done = subprocess.run([sys.executable, "-c", "import spillway"], capture_output=True, text=True,
                                  env=os.environ | {"PYTHONPATH": folder}, check=False, cwd=folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr.splitlines()[-1], "TorchVersionError: this Spillway was built for torch 1.2.3")

    def test_the_sources_alone_say_that_they_are_no_package(self):
        sources = pathlib.Path(spillway.__file__).resolve().parent
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(sources, pathlib.Path(folder) / "spillway", ignore=shutil.ignore_patterns("__pycache__"))
            done = subprocess.run([sys.executable, "-c", "import spillway"], capture_output=True, text=True,
                                  env=os.environ | {"PYTHONPATH": folder}, check=False, cwd=folder)
        self.assertRegex(done.stderr.splitlines()[-1], "LibraryError: .* has no library in it")

    @unittest.skipUnless((BUILD / "bin" / "spillway").exists(), "the program is not built here, the library alone is")
    def test_the_module_is_the_program(self):
        for words, code in ((["--help"], 0), (["train", "--nonsense"], 2)):
            mine = subprocess.run([sys.executable, "-m", "spillway", *words], capture_output=True, text=True, check=False)
            program = subprocess.run([str(BUILD / "bin" / "spillway"), *words], capture_output=True, text=True, check=False)
            self.assertEqual((mine.returncode, mine.stdout, mine.stderr), (code, program.stdout, program.stderr))


if __name__ == "__main__":
    unittest.main()
