# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Loops as scripts write them: autocast, GradScaler, accumulation, clipping, changing lengths, several models."""

import contextlib
import unittest

import torch
from same_bits import Case, bits, gradients, noise, seeded

WIDTH = 128


def net(width=WIDTH, depth=6):
    layers = (lambda: torch.nn.Linear(width, width), lambda: torch.nn.LayerNorm(width), torch.nn.GELU)
    return torch.nn.Sequential(*[make() for _ in range(depth) for make in layers])


def loss_of(model, step, rows=1024):
    return model(noise(rows, WIDTH, step=step)).square().mean()


class Precision(Case):
    def test_autocast(self):
        for dtype in (torch.bfloat16, torch.float16):
            with self.subTest(dtype):
                def cast(model, step, dtype=dtype):
                    with torch.autocast("cpu", dtype):
                        return loss_of(model, step)

                self.check(net, cast)

    def test_autocast_without_its_cache_of_weights(self):
        def cast(model, step):
            with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
                return loss_of(model, step)

        self.check(net, cast)

    def test_weights_of_lower_precision(self):
        for dtype in (torch.bfloat16, torch.float64):
            with self.subTest(dtype):
                self.check(lambda dtype=dtype: net().to(dtype), lambda model, step, dtype=dtype:
                           model(noise(1024, WIDTH, step=step).to(dtype)).float().square().mean())


class Loops(Case):
    """`loop(model, around)` trains and tells what it saw; plain and under a budget."""

    def check_loop(self, loop, budget="8MiB", make=net):
        plain = loop(seeded(make), contextlib.nullcontext())
        model = seeded(make)
        session = self.open(model, budget)
        self.assertEqual(loop(model, session), plain)
        report = session.report()
        self.assertGreater(report["freed_bytes"], 0)
        self.assertGreater(report["loaded_bytes"] + report["recomputed_bytes"], 0)
        session.close()

    def test_grad_scaler_with_a_step_that_it_skips(self):
        def loop(model, around):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 16)
            seen = []
            for step in range(3):
                with around, torch.autocast("cpu", torch.float16):
                    loss = loss_of(model, step) * (1e38 if step == 1 else 1)
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                seen += gradients(model) + [scaler.get_scale()]
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            self.assertLess(scaler.get_scale(), 2.0 ** 16)
            return seen + bits(model.parameters())

        self.check_loop(loop, "6MiB")

    def test_accumulation_clipping_and_a_learning_rate(self):
        def loop(model, around):
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
            seen = []
            for step in range(6):
                with around:
                    loss = loss_of(model, step) / 3
                loss.backward()
                if step % 3 == 2:
                    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                    seen += bits([loss, norm]) + gradients(model)
                    optimizer.step()
                    rate.step()
                    optimizer.zero_grad()
            return seen + bits(model.parameters())

        self.check_loop(loop)

    def test_accumulation_of_losses_with_one_backward(self):
        def loop(model, around):
            with around:
                loss = sum(loss_of(model, step, rows=256) for step in range(4))
            loss.backward()
            return bits([loss]) + gradients(model)

        self.check_loop(loop)

    def test_batches_of_every_length(self):
        def loop(model, around):
            seen = []
            for step, rows in enumerate((1024, 1, 777, 0, 64, 900)):
                with around:
                    loss = loss_of(model, step, rows).nan_to_num()
                loss.backward()
                seen += bits([loss]) + gradients(model)
            return seen

        self.check_loop(loop)

    def test_evaluation_between_steps_and_inside(self):
        def loop(model, around):
            seen = []
            for step in range(3):
                with around:
                    loss = loss_of(model, step)
                    with torch.no_grad():
                        seen += bits([loss_of(model, 99)])
                    with torch.inference_mode():
                        seen += bits([loss_of(model, 98)])
                loss.backward()
                seen += gradients(model)
            return seen

        self.check_loop(loop)

    def test_an_optimizer_that_calls_back(self):
        def loop(model, around):
            optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
            seen = []

            def closure():
                optimizer.zero_grad()
                with around:
                    loss = loss_of(model, 0)
                loss.backward()
                seen.extend(bits([loss]))
                return loss

            optimizer.step(closure)
            return seen + bits(model.parameters())

        self.check_loop(loop, "9MiB")

    def test_a_penalty_on_gradients(self):
        def loop(model, around):
            x = noise(512, WIDTH).requires_grad_()
            with around:
                (slope,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
                loss = slope.norm()
            loss.backward()
            return bits([loss, x.grad]) + gradients(model)

        self.check_loop(loop, "10MiB")


class Models(Case):
    def gan(self, around_one, around_other, maker, judge):
        """Two models in turn, each in its session; the maker learns through the judge."""
        optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in (maker, judge)]
        seen = []
        for step in range(2):
            with around_other:
                made = maker(noise(1024, WIDTH, step=step))
                real = noise(1024, WIDTH, step=50 + step)
                loss = judge(made.detach()).square().mean() - judge(real).square().mean()
            loss.backward()
            optimizers[1].step()
            with around_one:
                fooled = judge(maker(noise(1024, WIDTH, step=step))).square().mean()
            fooled.backward()
            seen += bits([loss, fooled]) + gradients(maker) + gradients(judge)
            optimizers[0].step()
            for optimizer in optimizers:
                optimizer.zero_grad()
        return seen

    def models(self):
        return seeded(net, 1), seeded(net, 2)

    def test_two_models_with_a_session_each(self):
        plain = self.gan(contextlib.nullcontext(), contextlib.nullcontext(), *self.models())
        maker, judge = self.models()
        one, other = self.open(maker, "14MiB"), self.open(judge, "14MiB")
        self.assertEqual(self.gan(one, other, maker, judge), plain)
        self.assertGreater(one.report()["freed_bytes"] + other.report()["freed_bytes"], 0)

    def test_two_models_in_one_session(self):
        plain = self.gan(contextlib.nullcontext(), contextlib.nullcontext(), *self.models())
        both = torch.nn.ModuleList(self.models())
        session = self.open(both, "14MiB")
        self.assertEqual(self.gan(session, session, *both), plain)
        self.assertGreater(session.report()["freed_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
