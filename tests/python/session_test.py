# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The package as a script uses it: the same bits as plain training, from open to close."""

import os
import threading
import unittest

import spillway
import torch
import torch.utils.checkpoint

from small_training import Train, batch, bits, model


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
            self.assertGreater(session.report()["freed_bytes"], 8 << 20)
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


if __name__ == "__main__":
    unittest.main()
