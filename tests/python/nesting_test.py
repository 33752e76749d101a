# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A session inside another, and threads: who takes what is saved, and whose budget holds."""

import threading
import unittest

import torch
from same_bits import Case, bits, gradients, noise, seeded

WIDTH, ROWS = 128, 1024
MEBI = 1 << 20


def net(depth=6):
    return torch.nn.Sequential(*[layer for _ in range(depth) for layer in (torch.nn.Linear(WIDTH, WIDTH),
                                                                          torch.nn.GELU())])


def loss_of(model, step=0):
    return model(noise(ROWS, WIDTH, step=step)).square().mean()


def takes_24_mebibytes(_gradient):
    torch.empty(24 << 20, dtype=torch.uint8)


def plain_gradients():
    model = seeded(net)
    loss = model[6:](model[:6](noise(ROWS, WIDTH))).square().mean()
    loss.backward()
    return bits([loss]) + gradients(model)


PLAIN = plain_gradients()


class Nested(Case):
    def run_nested(self, outer_budget, inner_budget):
        """The second half of the model runs in the inner session."""
        model = seeded(net)
        outer = self.open(model, outer_budget)
        with outer:
            half = model[:6](noise(ROWS, WIDTH))
            before = outer.report()["saved_tensors"]
            inner = self.open(model, inner_budget)
            with inner:
                hidden = model[6:](half)
            self.assertEqual(outer.report()["saved_tensors"], before, "the inner one takes the saves")
            self.assertGreater(inner.report()["saved_tensors"], 0)
            loss = hidden.square().mean()
            self.assertGreater(outer.report()["saved_tensors"], before, "the outer one goes on")
        loss.backward()
        self.assertEqual(bits([loss]) + gradients(model), PLAIN)
        return outer, inner

    def test_the_inner_one_takes_the_saves(self):
        self.run_nested("64MiB", "64MiB")

    def test_the_budget_of_the_outer_one_holds_inside_the_inner_one(self):
        outer, _ = self.run_nested("6MiB", "64MiB")
        self.assertGreater(outer.report()["stored_bytes"], 0)
        self.assertGreater(outer.report()["device_peak_bytes"], 5 * MEBI)
        self.assertLessEqual(outer.report()["device_peak_bytes"], 6 * MEBI)

    def test_the_budget_of_the_inner_one_holds(self):
        _, inner = self.run_nested("64MiB", "3MiB")
        self.assertGreater(inner.report()["stored_bytes"], 0)
        self.assertLessEqual(inner.report()["device_peak_bytes"], 3 * MEBI)

    def test_the_outer_one_goes_on_when_the_inner_one_closed(self):
        plain = self.train(seeded(net), loss_of)
        model = seeded(net)
        outer = self.open(model, "6MiB")

        def with_a_session_inside(model, step):
            inner = self.open(model, "64MiB")
            with inner, torch.no_grad():
                loss_of(model, 9)
            inner.close()
            return loss_of(model, step)

        self.assertEqual(self.train(model, with_a_session_inside, lambda: outer), plain)
        self.assertGreater(outer.report()["stored_bytes"], 0)
        self.assertGreater(outer.report()["device_peak_bytes"], 5 * MEBI)

    def test_three_deep(self):
        model = seeded(net)
        sessions = [self.open(model, f"{size}MiB") for size in (7, 5, 3)]
        with sessions[0]:
            hidden = model[:4](noise(ROWS, WIDTH))
            with sessions[1]:
                hidden = model[4:8](hidden)
                with sessions[2]:
                    hidden = model[8:](hidden)
            loss = hidden.square().mean()
        loss.backward()
        self.assertEqual(bits([loss]) + gradients(model), PLAIN)
        reports = [session.report() for session in sessions]
        self.assertTrue(all(report["saved_tensors"] for report in reports))
        self.assertGreater(sum(report["stored_bytes"] for report in reports), 0)
        for report, size in zip(reports, (7, 5, 3), strict=True):
            self.assertLessEqual(report["device_peak_bytes"], size * MEBI)


class Threads(Case):
    def in_a_thread(self, work):
        """What `work` returns, or raises, in a thread of its own."""
        ends = []

        def run():
            try:
                ends.append((work(), None))
            except Exception as error:
                ends.append((None, error))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(600)
        self.assertFalse(thread.is_alive(), "hangs")
        result, error = ends[0]
        if error is not None:
            raise error
        return result

    def test_a_thread_started_inside_is_plain_and_not_capped(self):
        session = self.open(seeded(net), "4MiB")

        def work():
            model = seeded(net)
            loss = loss_of(model)
            loss.backward()
            return bits([loss]) + gradients(model)

        with session:
            self.assertEqual(self.in_a_thread(work), PLAIN)
        self.assertEqual(session.report()["saved_tensors"], 0)

    def test_backward_on_another_thread(self):
        for retain in (False, True):
            model = seeded(net)
            session = self.open(model, "6MiB")
            with session:
                loss = loss_of(model)
            self.assertGreater(session.report()["freed_bytes"], 0)
            self.in_a_thread(lambda loss=loss, retain=retain: loss.backward(retain_graph=retain))
            self.assertEqual(bits([loss]) + gradients(model), PLAIN)
            del loss
            session.close()

    def test_a_session_in_each_of_two_threads(self):
        def work(folder=self.folder):
            model = seeded_alone()
            session = self.open(model, "8MiB", nvme=folder)
            for _ in range(3):
                model.zero_grad()
                with session:
                    loss = loss_of(model)
                loss.backward()
            moved = session.report()["stored_bytes"]
            session.close()
            return bits([loss]) + gradients(model), moved

        lock = threading.Lock()

        def seeded_alone():
            with lock:  # the random numbers are the process's
                return seeded(net)

        both, ends = [], []
        for _ in range(2):
            both.append(threading.Thread(target=lambda: ends.append(work())))
            both[-1].start()
        for thread in both:
            thread.join(600)
            self.assertFalse(thread.is_alive(), "hangs")
        for seen, moved in ends:
            self.assertEqual(seen, PLAIN)
            self.assertGreater(moved, 0)
        self.assertEqual(len(ends), 2)

    def test_a_session_that_only_a_graph_is_left_of_takes_nothing_of_another_ones(self):
        """As with two models in turn: both forwards, then each one's backward and step."""
        large, small = torch.nn.Linear(1024, 1024), torch.nn.Linear(64, 64)
        adam = torch.optim.Adam(large.parameters())
        of_large, of_small = self.open(large, "64MiB"), self.open(small, "8MiB")
        with of_large:
            loss = large(torch.ones(8, 1024)).square().mean()
        with of_small:
            other = small(torch.ones(64, 64)).square().mean()
        temporary = []
        large.bias.register_hook(lambda _: temporary.append(torch.empty(24 << 20, dtype=torch.uint8)))
        loss.backward()
        self.assertGreater(of_large.report()["device_bytes"], 24 << 20)
        temporary.clear()
        adam.step()  # 8 MiB of state
        self.assertGreater(of_large.report()["device_bytes"], 15 << 20)
        self.assertLess(of_small.report()["device_peak_bytes"], MEBI)
        other.backward()

    def test_the_backward_around_an_inner_session_has_the_outer_budget(self):
        model = seeded(net)
        outer, inner = self.open(model, "64MiB"), self.open(model, "16MiB")
        with outer:
            half = model[:6](noise(ROWS, WIDTH))
            with inner:
                loss = model[6:](half).square().mean()
        model[0].bias.register_hook(takes_24_mebibytes)
        loss.backward()

    def test_a_backward_has_its_own_budget_beside_the_graph_of_a_larger_one(self):
        model = torch.nn.Linear(64, 64)
        small, large = self.open(model, "8MiB"), self.open(torch.nn.Linear(1, 1), "64MiB")
        with small:
            loss = model(torch.ones(64, 64)).square().mean()
        with large:
            other = torch.ones(64, requires_grad=True).sin().exp().sum()
        model.bias.register_hook(takes_24_mebibytes)
        with self.assertRaises(torch.OutOfMemoryError):
            loss.backward()
        other.backward()

    def test_what_fits_nowhere_is_refused_where_the_inner_one_has_free_bytes_of_its_own(self):
        """The outer one asks the inner one for room, which must not borrow that from the outer one first: no end otherwise."""
        outer, inner = (self.open(torch.nn.Linear(8, 8), "32MiB") for _ in range(2))
        with inner:
            kept = torch.empty(6 * MEBI, dtype=torch.uint8)
        with outer:
            with inner:
                graph = inner._model(noise(64, 8)).sum()  # keeps the loan
                del kept
            rest = torch.empty(28 * MEBI, dtype=torch.uint8)
            with self.assertRaisesRegex(torch.OutOfMemoryError, "asked for 8.0 MiB"):
                torch.empty(8 * MEBI, dtype=torch.uint8)
        del rest, graph

    def test_data_loader_with_worker_processes(self):
        rows = torch.utils.data.TensorDataset(noise(2 * ROWS, WIDTH))

        def train(around=None):
            model = seeded(net)
            session = around(model) if around else torch.enable_grad()
            seen = []
            for (batch,) in torch.utils.data.DataLoader(rows, batch_size=ROWS, num_workers=1):
                with session:
                    loss = model(batch).square().mean()
                loss.backward()
                seen += bits([loss]) + gradients(model)
            return seen

        plain = train()
        self.assertEqual(train(lambda model: self.open(model, "8MiB")), plain)
        self.assertGreater(self.sessions[0].report()["freed_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
