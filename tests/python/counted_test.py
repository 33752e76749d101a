# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What the model and its optimizers have counts in the budget, wherever and whenever it came; peaks count by phase."""

import json
import pathlib
import unittest

import spillway
import torch
from same_bits import Case, noise, seeded

WIDTH = 256


def model() -> torch.nn.Module:
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]
    return torch.nn.Sequential(*layers)


class Counted(Case):
    def test_the_state_of_optimizers_counts_in_the_budget(self):
        net = seeded(model)
        optimizers = [torch.optim.AdamW(layer.parameters()) for layer in net if isinstance(layer, torch.nn.Linear)]
        counted = [self.counted_at_opening(net)]
        net(noise(1024, WIDTH)).sum().backward()
        for each in optimizers:
            each.step()
            each.zero_grad()
        counted += [self.counted_at_opening(net, given) for given in (None, optimizers[0], optimizers)]
        size = sum(value.nbytes for each in optimizers for state in each.state.values() for value in state.values())
        self.assertEqual([more - counted[0] for more in counted[1:]], [size, size, size], "once each, given or not")

    def counted_at_opening(self, net, optimizer=None) -> int:
        session = self.open(net, "12MiB", optimizer=optimizer)
        counted = session.report()["device_bytes"]
        session.close()
        return counted

    def test_what_the_model_has_counts_anew_when_it_changes(self):
        net = seeded(model)
        net(noise(1024, WIDTH)).sum().backward()
        session = self.open(net, "64MiB")
        before, all_bytes = self.counted(session), sum(parameter.nbytes for parameter in net.parameters())
        net.zero_grad()
        self.assertEqual(before - self.counted(session), all_bytes, "its gradients of before the session are gone")
        net[0] = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.assertEqual(before - self.counted(session), all_bytes - (WIDTH + 1) * WIDTH * 4, "and a layer is another one")

    def counted(self, session: spillway.Session) -> int:
        """What the session counts once it has been entered again."""
        with session:
            pass
        return session.report()["device_bytes"]

    def test_gradients_that_come_outside_of_the_session_count_while_they_are_there(self):
        net = seeded(model)
        session = self.open(net, "64MiB")
        before = self.counted(session)
        net(noise(1024, WIDTH)).sum().backward()
        self.assertEqual(self.counted(session) - before, sum(parameter.nbytes for parameter in net.parameters()))
        net.zero_grad()
        self.assertEqual(self.counted(session), before)

    def test_gradients_that_come_after_the_last_saved_tensor_count(self):
        net = torch.nn.Module()
        net.weight = torch.nn.Parameter(torch.ones(1 << 18))
        session = self.open(net, "64MiB")
        before = self.counted(session)
        with session:
            loss = net.weight.expand(4, -1).sin().sum()
        loss.backward()  # the sine lets go of what it saved; the sum over the copies comes then
        del loss
        self.assertEqual(session.report()["device_bytes"] - before, net.weight.grad.nbytes)
        torch.empty(128 << 20, dtype=torch.uint8)  # the cap has ended

    def test_state_of_an_optimizer_in_lists_counts(self):
        net = seeded(model)
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
        session = self.open(net, "64MiB", optimizer=optimizer)
        before = self.counted(session)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = net(noise(1024, WIDTH)).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)
        optimizer.zero_grad()
        (state,) = optimizer.state.values()
        lists = [tensor for value in state.values() if isinstance(value, list) for tensor in value if tensor is not None]
        self.assertGreater(len(lists), 2)
        self.assertGreaterEqual(self.counted(session) - before, sum(tensor.nbytes for tensor in lists))

    def test_sparse_gradients_may_be_there_when_it_is_entered(self):
        net = torch.nn.Embedding(1000, WIDTH, sparse=True)
        session = self.open(net, "64MiB")
        for _ in range(2):
            with session:
                net(torch.arange(10)).sum().backward()
        self.assertTrue(net.weight.grad.is_sparse)

    def test_a_backward_inside_the_session_is_a_phase_of_its_own(self):
        net = seeded(model)
        session = self.open(net, "12MiB")
        with session:
            for _ in range(2):
                loss = net(noise(1024, WIDTH)).square().mean()
                loss.backward()
                del loss  # or its graph would hold the next one's room
                session.step()
        file = pathlib.Path(self.folder) / "x.json"
        session.timeline(file)
        marks = [event["name"] for event in json.loads(file.read_text())["traceEvents"] if "name" in event]
        for step in (1, 2):
            for phase in ("forward", "backward"):
                self.assertIn(f"step {step}, {phase}", marks)
        peaks = session.report()["device_peak_by_phase"]
        self.assertGreater(peaks["backward"], peaks["forward"] // 2)


if __name__ == "__main__":
    unittest.main()
