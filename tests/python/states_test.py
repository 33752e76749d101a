# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""An optimizer's state that leaves the device between steps: the bits of plain training, in less memory than the state takes."""

import contextlib
import copy
import gc
import io
import threading
import unittest
import unittest.mock
from collections.abc import Callable
from typing import Any

import spillway
import torch
from same_bits import Case, bits, noise, seeded

WIDTH, ROWS, LAYERS, STEPS = 256, 64, 8, 4
PARAMETER_BYTES = LAYERS * 4 * WIDTH * (WIDTH + 1)


def model() -> torch.nn.Module:
    return torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))


Make = Callable[[torch.nn.Module], torch.optim.Optimizer]


def adam(net: torch.nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), lr=1e-2, **options)


def states_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]


class States(Case):
    def moving(self, net: torch.nn.Module, budget: int | str | None = None, **options: Any) -> spillway.Session:
        """Room for parameters, gradients and less than half of Adam's state."""
        return self.open(net, budget or 3 * PARAMETER_BYTES, states="optimizer", min_tensor_bytes="1KiB", **options)

    def trained(self, net: torch.nn.Module, optimizer: torch.optim.Optimizer, around: Any, *, steps: int = STEPS, first: int = 0,
                between: Callable[[], object] = lambda: None, inside: bool = False) -> list[str]:
        seen = []
        for step in range(first, first + steps):
            with around:
                loss = net(noise(ROWS, WIDTH, step=step)).square().mean()
                if inside:
                    loss.backward()
                    between()
                    optimizer.step()
            if not inside:
                loss.backward()
                between()
                optimizer.step()
            self.assertEqual([p.grad is None for p in net.parameters()], [False] * 2 * LAYERS)
            seen += bits([loss.detach()]) + bits(p.grad for p in net.parameters() if p.grad is not None)
            optimizer.zero_grad()
        return seen + bits(net.parameters())

    def both(self, make: Make, budget: int | None = None, **training: Any) -> tuple[list[str], list[str], spillway.Report]:
        """Plain, and with its state away, which is compared, too."""
        net = seeded(model)
        optimizer = make(net)
        plain = self.trained(net, optimizer, contextlib.nullcontext(), **training) + bits(states_of(optimizer))
        net = seeded(model)
        optimizer = make(net)
        session = self.moving(net, budget)
        ours = self.trained(net, optimizer, session, **training)
        report = session.report()
        session.close()
        return plain, ours + bits(states_of(optimizer)), report

    def test_optimizers_train_to_the_same_bits_with_their_state_away(self) -> None:
        optimizers: dict[str, Make] = {
            "AdamW": adam,
            "AdamW, one parameter at a time": lambda net: adam(net, foreach=False),
            "AdamW, foreach": lambda net: adam(net, foreach=True),
            "AdamW, fused": lambda net: adam(net, fused=True),
            "Adam, amsgrad": lambda net: torch.optim.Adam(net.parameters(), amsgrad=True),
            "SGD with momentum": lambda net: torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
            "RMSprop": lambda net: torch.optim.RMSprop(net.parameters(), momentum=0.9, centered=True),
            "Adagrad, whole": lambda net: torch.optim.Adagrad(net.parameters()),
        }
        for name, make in optimizers.items():
            with self.subTest(name):
                plain, ours, report = self.both(make, 4 * PARAMETER_BYTES if "whole" in name else None)
                self.assertEqual(ours, plain)
                self.assertLessEqual(report["device_peak_bytes"], report["device_limit_bytes"])
                if "Adam" in name:
                    self.assertGreater(report["stored_bytes"], STEPS * PARAMETER_BYTES)
                    self.assertGreater(report["loaded_bytes"], PARAMETER_BYTES)

    def test_the_same_in_a_session_that_stays_entered_over_the_step(self) -> None:
        plain, ours, _ = self.both(adam, inside=True)
        self.assertEqual(ours, plain)

    def test_without_it_the_budget_does_not_hold_the_state(self) -> None:
        net = seeded(model)
        session = self.open(net, 3 * PARAMETER_BYTES, min_tensor_bytes="1KiB")
        with self.assertRaises((torch.OutOfMemoryError, spillway.BudgetError)):
            self.trained(net, adam(net), session)

    def test_what_is_away_cannot_be_read_and_is_back_after_close(self) -> None:
        net = seeded(model)
        optimizer = adam(net)
        session = self.moving(net)
        self.trained(net, optimizer, session, steps=2)
        state = optimizer.state[net[0].weight]["exp_avg"]
        readers: dict[str, Callable[[], object]] = {
            "norm": lambda: state.norm(), "numpy": lambda: state.numpy(), "address": lambda: state.data_ptr(),
            "copy": lambda: copy.deepcopy(optimizer), "save": lambda: torch.save(state, io.BytesIO()), "write": lambda: state.zero_(),
            "clone": lambda: state.clone(), "list": lambda: state.tolist(), "print": lambda: str(state)}
        for name, read in readers.items():
            with self.subTest(name), self.assertRaisesRegex(RuntimeError, "waits off the device.*state_dict"):
                read()
        session.close()
        self.assertTrue(torch.isfinite(state).all())
        self.assertGreater(state.abs().sum().item(), 0)

    def test_a_checkpoint_in_mid_training_has_the_state_and_training_goes_on(self) -> None:
        def saves(net: torch.nn.Module, optimizer: torch.optim.Optimizer, around: Any) -> tuple[list[str], dict[str, Any]]:
            seen = self.trained(net, optimizer, around, steps=2)
            saved = copy.deepcopy(optimizer.state_dict())
            weights = copy.deepcopy(net.state_dict())
            seen += self.trained(net, optimizer, around, steps=2, first=2)
            net.load_state_dict(weights)
            optimizer.load_state_dict(saved)
            return seen + self.trained(net, optimizer, around, steps=2, first=2), saved

        net = seeded(model)
        plain, _ = saves(net, adam(net), contextlib.nullcontext())
        net = seeded(model)
        session = self.moving(net)
        optimizer = adam(net)
        ours, saved = saves(net, optimizer, session)
        self.assertEqual(ours, plain)
        session.close()
        other = seeded(model)  # the checkpoint is loaded before a session is opened
        resumed = adam(other)
        other.load_state_dict(net.state_dict())
        resumed.load_state_dict(copy.deepcopy(saved))
        plain_net = copy.deepcopy(other)
        plain_optimizer = adam(plain_net)
        plain_optimizer.load_state_dict(saved)
        plain = self.trained(plain_net, plain_optimizer, contextlib.nullcontext())
        self.assertEqual(self.trained(other, resumed, self.moving(other)), plain)

    def test_clipping_schedules_groups_scaling_and_accumulation(self) -> None:
        def trained(net: Any, around: Any) -> list[str]:
            optimizer = torch.optim.AdamW([{"params": net[:3].parameters()}, {"params": net[3:].parameters(), "lr": 1e-3}], fused=True)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            for step in range(STEPS):
                for micro in range(2):
                    with around:
                        loss = net(noise(ROWS, WIDTH, step=2 * step + micro)).square().mean()
                    scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
                scaler.step(optimizer)
                scaler.update()
                schedule.step()
                optimizer.zero_grad()
            return bits(net.parameters())

        plain = trained(seeded(model), contextlib.nullcontext())
        net = seeded(model)
        self.assertEqual(trained(net, self.moving(net)), plain)

    def test_an_optimizer_with_hooks_of_its_own_steps_as_a_whole_and_one_with_a_closure_by_pieces(self) -> None:
        def hooked(net: torch.nn.Module, before: list[bool]) -> torch.optim.Optimizer:
            optimizer = adam(net)
            optimizer.register_step_pre_hook(lambda *_: before.append(all(p.grad is not None for p in net.parameters())))
            optimizer.register_step_post_hook(lambda *_: before.append(all(p.grad is not None for p in net.parameters())))
            return optimizer

        net, seen = seeded(model), list[bool]()
        plain = self.trained(net, hooked(net, seen), contextlib.nullcontext())
        self.assertEqual(seen, [True] * 2 * STEPS)
        net, seen = seeded(model), list[bool]()
        session = self.moving(net, 6 * PARAMETER_BYTES)
        self.assertEqual(self.trained(net, hooked(net, seen), session), plain)
        self.assertEqual(seen, [True] * 2 * STEPS)
        session.close()

        def with_closure(net: torch.nn.Module, around: Any) -> list[str]:
            optimizer = adam(net)

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                with around:
                    loss = net(noise(ROWS, WIDTH)).square().mean()
                loss.backward()
                return loss
            losses = [optimizer.step(closure) for _ in range(STEPS)]
            return bits(net.parameters()) + bits(loss.detach() for loss in losses)

        plain = with_closure(seeded(model), contextlib.nullcontext())
        net = seeded(model)
        self.assertEqual(with_closure(net, self.moving(net)), plain)

    def test_a_step_that_raises_leaves_all_gradients(self) -> None:
        net = seeded(model)
        optimizer = adam(net)
        session = self.moving(net)
        self.trained(net, optimizer, session, steps=2)
        with session:
            loss = net(noise(ROWS, WIDTH)).square().mean()
        loss.backward()
        net[3].weight.grad = net[3].weight.grad.to_sparse()  # which Adam refuses, in the middle of the pieces
        with self.assertRaisesRegex(RuntimeError, "sparse"):
            optimizer.step()
        self.assertEqual([p.grad is None for p in net.parameters()], [False] * 2 * LAYERS)
        optimizer.zero_grad()
        self.trained(net, optimizer, session, steps=1)

    def test_an_error_between_the_pieces_and_the_step_s_end_loses_no_gradient(self) -> None:
        net = seeded(model)
        optimizer = adam(net)
        session = self.moving(net)
        self.trained(net, optimizer, session, steps=2)
        net_loss = net(noise(ROWS, WIDTH)).square().mean()
        net_loss.backward()
        before = [p.grad for p in net.parameters()]
        with unittest.mock.patch.object(type(session._states), "end", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            optimizer.step()
        for parameter, gradient in zip(net.parameters(), before, strict=True):
            self.assertIs(parameter.grad, gradient)
        optimizer.zero_grad()
        with session:
            pass
        self.assertEqual([p.grad for p in net.parameters()], [None] * 2 * LAYERS)

    def test_optimizers_that_step_on_threads_have_their_bits(self) -> None:
        def trained(net: Any, around: Any) -> list[str]:
            halves = [torch.optim.AdamW(half.parameters()) for half in (net[:4], net[4:])]
            for step in range(4):
                with around:
                    loss = net(noise(ROWS, WIDTH, step=step)).square().mean()
                loss.backward()
                threads = [threading.Thread(target=each.step) for each in halves]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                for each in halves:
                    each.zero_grad()
            return bits(net.parameters())

        plain = trained(seeded(model), contextlib.nullcontext())
        net = seeded(model)
        self.assertEqual(trained(net, self.moving(net, 4 * PARAMETER_BYTES)), plain)

    def test_what_others_refer_to_stays(self) -> None:
        net = seeded(model)
        optimizer = adam(net)
        session = self.moving(net, 6 * PARAMETER_BYTES)
        self.trained(net, optimizer, session, steps=1)
        state = optimizer.state_dict()["state"][0]["exp_avg"]
        alias = torch.from_dlpack(state)
        net.register_buffer("mask", noise(WIDTH, WIDTH))
        optimizer.state[net[0].weight]["mask"] = net.mask
        self.trained(net, optimizer, session, steps=2)
        self.assertTrue(torch.equal(alias, state))
        self.assertEqual(net.mask.shape, (WIDTH, WIDTH))
        self.assertTrue(torch.isfinite(net.mask).all())

    def test_a_full_device_takes_no_state_away_when_the_session_ends(self) -> None:
        net = seeded(model)
        optimizer = adam(net)
        session = self.moving(net)
        self.trained(net, optimizer, session, steps=2)
        held = []
        with self.assertRaises(torch.OutOfMemoryError), session:
            while True:
                held.append(torch.ones(WIDTH, WIDTH))
        saved = copy.deepcopy(optimizer.state_dict())
        with session:
            pass
        session.close()
        self.assertEqual(bits(states_of(optimizer)), bits(value for state in saved["state"].values() for value in state.values()))

    def test_a_checkpoint_before_the_first_step_of_a_session_and_a_class_that_goes_on_with_its_state(self) -> None:
        class Halves(torch.optim.AdamW):
            def step(self, closure: Any = None) -> Any:
                super().step(closure)
                for state in self.state.values():
                    state["exp_avg"].mul_(0.5)

        def trained(net: torch.nn.Module, around: Any) -> list[str]:
            return self.trained(net, Halves(net.parameters()), around)

        adam(seeded(model))  # torch calls hooks in the steps of a class that was used by itself
        plain = trained(seeded(model), contextlib.nullcontext())
        net = seeded(model)
        self.assertEqual(trained(net, self.moving(net, 6 * PARAMETER_BYTES)), plain)
        net = seeded(model)
        optimizer = adam(net)
        self.trained(net, optimizer, contextlib.nullcontext())
        session = self.moving(net, 6 * PARAMETER_BYTES)
        with session:
            net(noise(ROWS, WIDTH))
        saved = optimizer.state_dict()["state"][0]["exp_avg"]
        self.assertTrue(torch.isfinite(saved).all())
        session.close()
        self.assertFalse(optimizer._optimizer_state_dict_pre_hooks)

    def test_an_optimizer_inside_a_wrapper_that_was_loaded_from_a_checkpoint(self) -> None:
        class Wrapper(torch.optim.Optimizer):  # as Accelerate's, which does not make its base
            def __init__(self, inner: torch.optim.Optimizer) -> None:
                self.inner = inner

            @property
            def state(self) -> Any:
                return self.inner.state

            @property
            def param_groups(self) -> Any:
                return self.inner.param_groups

            def step(self, closure: Any = None) -> Any:
                return self.inner.step(closure)

            def zero_grad(self, set_to_none: bool = True) -> None:
                self.inner.zero_grad(set_to_none)

        def trained(net: torch.nn.Module, moves: bool) -> list[str]:
            wrapper = Wrapper(adam(net))
            self.trained(net, wrapper, contextlib.nullcontext(), steps=1)
            wrapper.inner.load_state_dict(copy.deepcopy(wrapper.inner.state_dict()))
            session = self.moving(net) if moves else contextlib.nullcontext()
            return self.trained(net, wrapper, session, first=1)

        self.assertEqual(trained(seeded(model), True), trained(seeded(model), False))

    def test_two_optimizers_and_one_that_ends(self) -> None:
        def trained(net: Any, around: Any) -> list[str]:
            halves = [torch.optim.AdamW(half.parameters()) for half in (net[:4], net[4:])]
            for step in range(6):
                with around:
                    loss = net(noise(ROWS, WIDTH, step=step)).square().mean()
                loss.backward()
                for each in halves:
                    each.step()
                    each.zero_grad()
                if step == 3:
                    halves[0] = torch.optim.AdamW(net[:4].parameters())
                    gc.collect()
            return bits(net.parameters())

        plain = trained(seeded(model), contextlib.nullcontext())
        net = seeded(model)
        self.assertEqual(trained(net, self.moving(net)), plain)

    def test_another_session_takes_over_and_one_that_nobody_closes_gives_the_state_back(self) -> None:
        net = seeded(model)
        optimizer = adam(net)
        plain = self.trained(net, optimizer, contextlib.nullcontext(), steps=6) + bits(states_of(optimizer))
        net = seeded(model)
        optimizer = adam(net)
        ours = []
        for first in (0, 2, 4):
            session = spillway.session(net, device_budget=4 * PARAMETER_BYTES, nvme=self.folder, states="optimizer")
            seen = self.trained(net, optimizer, session, steps=2, first=first)
            ours += seen[:2 * (1 + 2 * LAYERS)]
        del session
        gc.collect()
        self.assertEqual(ours + bits(net.parameters()) + bits(states_of(optimizer)), plain)

    def test_under_every_kind_of_policy(self) -> None:
        net = seeded(model)
        plain = self.trained(net, adam(net), contextlib.nullcontext(), steps=6)
        for policy in ("keep_all", "delta", "te:layers=2", "recompute_all", "auto"):
            with self.subTest(policy):
                net = seeded(model)
                session = self.moving(net, ("1GiB" if policy == "keep_all" else 4 * PARAMETER_BYTES), policy=policy)
                self.assertEqual(self.trained(net, adam(net), session, steps=6), plain)
                self.assertEqual(session.report()["plan"]["refusal"] if policy == "te:layers=2" else "", "")
                session.close()

    def test_bad_values_are_refused(self) -> None:
        with self.assertRaisesRegex(spillway.OptionError, "states: .*stay or optimizer"):
            self.open(model(), "1GiB", states="all")
        with self.assertRaisesRegex(spillway.OptionError, "states: .* no place to wait; give a folder"):
            self.open(model(), "1GiB", states="optimizer", nvme=None)


if __name__ == "__main__":
    unittest.main()
