# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""How a program learns which budget its step needs: at most one that is refused, then one that goes through."""

import unittest
import warnings
from collections.abc import Callable
from typing import Any

import spillway
import torch
from torch.utils.checkpoint import checkpoint

import same_bits

WIDTH = 128
PAGE = 4096


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.attention = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(),
                                       torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


class Model(torch.nn.Module):
    def __init__(self, begun_again: int = 0) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(6))
        self.begun_again = begun_again

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if i < self.begun_again else block(x)
        return x


class Budget(same_bits.Case):
    def step(self, budget: int | str, make: Callable[[], torch.nn.Module] = Model,
             optimizer: Any = torch.optim.SGD) -> int:
        """Two steps under `budget`, and what their report says was needed."""
        model = same_bits.seeded(make)
        used = optimizer(model.parameters(), lr=0.01)
        session = self.open(model, budget, recompute="off")  # a recipe may keep a page
        try:
            for _ in range(2):
                with session:
                    loss = model(same_bits.noise(16, 64, WIDTH)).square().mean()
                loss.backward()
                used.step()
                used.zero_grad()
            return session.report()["device_needed_bytes"]
        finally:
            session.close()

    def test_a_step_tells_the_smallest_budget_that_does(self):
        for make, optimizer in ((Model, torch.optim.SGD), (Model, torch.optim.AdamW),
                                (lambda: Model(3), torch.optim.SGD), (lambda: Model(6), torch.optim.SGD)):
            with self.subTest(optimizer=optimizer.__name__, begun_again=make().begun_again):
                needed = self.step("1TiB", make, optimizer)
                # On a slow disk stores that are under way may make it more.
                where_things_leave = self.step(needed + needed // 3, make, optimizer)
                self.assertTrue(needed <= where_things_leave <= needed + needed // 3, where_things_leave)
                self.assertEqual(self.step(needed, make, optimizer), needed)
                with self.assertRaises(torch.OutOfMemoryError):
                    self.step(needed - PAGE, make, optimizer)

    def test_a_refusal_says_how_to_learn_the_rest(self):
        with self.assertRaisesRegex(torch.OutOfMemoryError, "device_needed_bytes in its report"):
            self.step("6MiB")
        proven = self.sessions[-1].last_refusal["needed_bytes"]
        needed = self.step("1TiB")
        self.assertGreater(needed, 6 << 20)
        self.assertLessEqual(proven, needed)

    def test_a_refusal_says_no_more_than_a_step_needs(self):
        for optimizer in (torch.optim.SGD, torch.optim.AdamW):
            needed, told = self.step("1TiB", optimizer=optimizer), []
            for budget in range(6 << 20, needed - PAGE, (needed - (6 << 20)) // 4):
                with self.subTest(optimizer=optimizer.__name__, budget=budget, needed=needed):
                    with self.assertRaises(torch.OutOfMemoryError) as refused:
                        self.step(budget, optimizer=optimizer)
                    told.append(str(refused.exception))
                    refusal = self.sessions[-1].last_refusal
                    del refused
                    with_optimizer = refusal["with_optimizer_bytes"] if optimizer is torch.optim.AdamW else 0  # Adam's, as a guess
                    for least in (refusal["needed_bytes"], refusal["with_gradients_bytes"], with_optimizer):
                        self.assertLessEqual(least, needed)
                        self.assertIn(f"({least} bytes)" if least else "", told[-1])
            self.assertIn("once every parameter has a gradient", told[0])
            self.assertIn("if Adam steps", told[0])

    def test_a_refusal_in_an_optimizer_s_first_step_counts_the_state_that_it_will_keep(self):
        whole = torch.nn.Linear(1024, 1024, bias=False)
        optimizer = torch.optim.AdamW(whole.parameters())
        session = self.open(whole, "13MiB")
        with session:
            loss = whole(same_bits.noise(8, 1024)).square().mean()
        loss.backward()
        with self.assertRaisesRegex(torch.OutOfMemoryError, "once the optimizer that steps here has all its state") as refused:
            optimizer.step()
        self.assertNotIn("if Adam steps", str(refused.exception))

    def test_a_refusal_claims_no_gradients_of_optimizers_that_step_in_backward(self):
        """They free each gradient at once; and each knows of its own state alone."""
        model = torch.nn.Sequential(*(torch.nn.Linear(512, 512, bias=False) for _ in range(8)))
        of = {parameter: torch.optim.AdamW([parameter], foreach=False) for parameter in model.parameters()}

        def step(parameter):
            of[parameter].step()
            of[parameter].zero_grad()

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(step)

        def train(budget):
            model.zero_grad()
            for optimizer in of.values():
                optimizer.state.clear()
            session = self.open(model, budget)
            try:
                with session:
                    loss = model(same_bits.noise(8, 512)).square().mean()
                loss.backward()
                return session.report()["device_needed_bytes"]
            finally:
                session.close()

        needed = train("1GiB")
        for budget in range(9 << 20, needed, 2 << 20):
            with self.subTest(budget=budget):
                with self.assertRaises(torch.OutOfMemoryError) as refused:
                    train(budget)
                text = str(refused.exception)
                self.assertNotIn("every parameter", text)
                refusal = self.sessions[-1].last_refusal
                for which in ("needed_bytes", "with_gradients_bytes", "with_optimizer_bytes"):
                    self.assertLessEqual(refusal[which], needed + needed // 32)
                del refused

    def test_a_refusal_names_the_largest_tensor_that_something_holds(self):
        model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(12)))
        held = []
        for layer in model:
            layer.register_forward_hook(lambda layer, inputs, output: held.append(output))
        with self.open(model, "10MiB"), self.assertRaisesRegex(
                torch.OutOfMemoryError, r"or a checkpoint\), the largest is the saved tensor \[1024, 256\] float, made outside the graph"):
            model(torch.nn.functional.pad(same_bits.noise(1024, 256), (0, 0)))

    def test_a_place_that_was_forgotten_is_said_at_the_opening(self):
        model = torch.nn.Linear(2, 2)
        for host in (None, 0, "0", "0MiB", "0%"):
            with self.assertWarnsRegex(spillway.SpillwayWarning, r"nvme='/scratch'"):
                self.open(model, "8MiB", nvme=None, host_budget=host, recompute="off")
        with self.assertWarnsRegex(spillway.SpillwayWarning, "and makes no plan"):
            self.open(model, "8MiB", nvme=None, policy="te")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for options in ({"nvme": None, "host_budget": "8MiB"}, {"nvme": None, "policy": "keep_all"}, {"nvme": None}, {}):
                self.open(model, "8MiB", **options)
            self.open(model, "1TiB", nvme=None)

    def test_a_refused_step_tells_what_it_proved(self):
        model = same_bits.seeded(Model)
        session = self.open(model, "6MiB")
        with session, self.assertRaises(torch.OutOfMemoryError) as raised:
            model(same_bits.noise(16, 64, WIDTH))
        refusal = session.last_refusal
        self.assertIn(f"({refusal['needed_bytes']} bytes)", str(raised.exception))
        self.assertEqual(session.report()["device_needed_bytes"], refusal["needed_bytes"])
        self.assertEqual((refusal["why"], refusal["step"], refusal["phase"]), ("nothing_to_move", 1, "forward"))
        self.assertEqual(refusal["limit_bytes"], 6 << 20)
        self.assertGreater(refusal["used_bytes"] - refusal["freed_bytes"] + refusal["asked_bytes"], refusal["limit_bytes"])
        session.close()
        self.assertEqual(session.last_refusal, refusal)

    def test_gradients_of_before_the_session_that_were_freed_in_it_count_no_more(self):
        """By `zero_grad` inside the `with`: they are of no other entry's count."""
        net = torch.nn.Sequential(*(torch.nn.Linear(512, 512, bias=False) for _ in range(8)))
        net(torch.ones(8, 512)).sum().backward()  # 8 MiB of gradients
        session = self.open(net, "24MiB")
        with session:
            net.zero_grad()
            net(torch.ones(1024, 512)).square().mean().backward()
        self.assertLessEqual(session.report()["device_needed_bytes"], 24 << 20)
        session.close()

    def test_before_a_refusal_there_is_none(self):
        session = self.open(torch.nn.Linear(2, 2), "8MiB")
        self.assertIsNone(session.last_refusal)
        session.close()
        self.assertIsNone(session.last_refusal)


if __name__ == "__main__":
    unittest.main()
