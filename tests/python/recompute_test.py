# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Saved tensors that are dropped and made again: the bits of plain training, whatever the program does between."""

import contextlib
import gc
import threading
import unittest
import warnings

import numpy as np
import spillway
import torch
from torch import nn

WIDTH, ROWS = 256, 1024  # 1 MiB an activation


class Block(nn.Module):
    """What transformers are made of: a norm, a product, a cheap function, dropout, a residual."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.function = nn.ReLU(inplace=True) if inplace else nn.GELU()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.down(self.function(self.up(self.norm(x)))))


class Recompute(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.input = torch.randn(ROWS, WIDTH)

    def model(self, blocks: int = 6, **how) -> nn.Sequential:
        torch.manual_seed(1)
        return nn.Sequential(*[Block(**how) for _ in range(blocks)])

    def train(self, model, session=None, steps: int = 3, between=lambda: None, loss_of=None):
        """Losses, gradients of the last step and buffers."""
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        losses = []
        torch.manual_seed(5)
        for _ in range(steps):
            optimizer.zero_grad()
            with session or contextlib.nullcontext():
                loss = (loss_of or (lambda: model(self.input).square().mean()))()
            between()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.grad.clone() for p in model.parameters()], [b.clone() for b in model.buffers()]

    def peak_of(self, make, **options):
        """Device bytes that training takes where nothing leaves, and those of its saved tensors at once."""
        model = make()
        session = spillway.session(model, device_budget="1GiB", policy="keep_all")
        self.train(model, session, steps=2, **options)
        report = session.report()
        session.close()
        return report["device_peak_bytes"], report["saved_bytes"] // 2

    def expect_plain(self, make, share=0.2, **options):
        """Trains plainly, and in a session that has nowhere to move anything to: `share` of the bytes that could leave
        have to."""
        expected = self.train(make(), **options)
        peak, saved = self.peak_of(make, **options)
        model = make()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it has nowhere to move, and does not mind
            session = spillway.session(model, device_budget=int(peak - share * saved))
        try:
            actual = self.train(model, session, **options)
            report = session.report()
        finally:
            session.close()
        self.assertEqual(expected[0], actual[0])
        for one, other in zip(expected[1] + expected[2], actual[1] + actual[2], strict=True):
            self.assertTrue(torch.equal(one, other))
        self.assertGreater(report["recomputed_values"], 0)
        self.assertEqual(report["stored_bytes"], 0)

    def test_a_transformers_blocks(self):
        self.expect_plain(self.model)

    def test_products_alone_where_there_is_no_place(self):
        """README's model: each layer saves what the one before made."""
        def make():
            torch.manual_seed(1)
            return nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(12)])
        self.expect_plain(make, share=0.5)

    def test_nothing_is_made_again_where_it_is_off_or_tensors_can_move(self):
        model = self.model()
        session = spillway.session(model, device_budget="20MiB", host_budget="64MiB")
        self.train(model, session)
        report = session.report()
        session.close()
        self.assertEqual(report["recomputed_values"], 0)
        self.assertGreater(report["stored_bytes"], 0)
        with self.assertWarnsRegex(spillway.SpillwayWarning, "a step over budget fails"):
            session = spillway.session(model, device_budget="20MiB", recompute="off")
        with self.assertRaises(torch.OutOfMemoryError):
            self.train(model, session)
        self.assertEqual(session.report()["recomputed_values"], 0)
        session.close()
        for policy in ("auto", "str"):
            with self.subTest(policy):
                session = spillway.session(model, device_budget="20MiB", recompute="off", policy=policy, host_budget="64MiB")
                self.train(model, session, steps=4)
                self.assertEqual(session.report()["recomputed_values"], 0)
                session.close()
        with self.assertRaises(spillway.OptionError) as refused:
            spillway.session(model, device_budget="20MiB", recompute="off", policy="rotor")
        self.assertEqual((refused.exception.option, refused.exception.code), ("policy", "makes_again"))

    def test_a_buffer_in_numpys_memory_that_numpy_writes_before_backward(self):
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(WIDTH, WIDTH)
                self.array = np.ones((WIDTH, WIDTH), np.float32)
                self.register_buffer("scale", torch.from_numpy(self.array))

            def forward(self, x):
                return torch.tanh(self.linear(x) @ self.scale)

        made = []

        def make():
            torch.manual_seed(1)
            made[:] = [Scaled() for _ in range(3)]
            return nn.Sequential(*made, *(Block() for _ in range(5)))

        def write():
            for each in made:
                each.array += 1.0
        self.expect_plain(make, between=write)

    def refused(self, model) -> int:
        """Kinds of recipes whose result was another when they were tried."""
        session = spillway.session(model, policy="recompute_all", device_budget="1GiB")
        self.train(model, session, steps=4)
        report = session.report()
        session.close()
        self.assertGreater(report["recomputed_values"], 0)
        return report["refused_recipes"]

    def test_what_was_written_since_refuses_no_other_recipe(self):
        class Logs(nn.Module):
            """Keeps a metric with its graph, and writes what that saved."""
            def __init__(self):
                super().__init__()
                self.linear, self.kept = nn.Linear(WIDTH, WIDTH), []

            def forward(self, x):
                h = self.linear(x).mul(1.5)
                self.kept[:] = [h.square().mean()]
                return h.relu_().sin()

        class Gates(nn.Module):
            """Writes parts of one storage that have versions of their own."""
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(WIDTH, WIDTH)

            def forward(self, x):
                return self.cell(x, torch.zeros_like(x) + 0.1)

        for first in (Logs, Gates):
            with self.subTest(first.__name__):
                torch.manual_seed(1)
                self.assertEqual(self.refused(nn.Sequential(first(), *(Block() for _ in range(3)))), 0)

    def test_beside_compiled_blocks(self):
        def make():
            torch._dynamo.reset()
            model = self.model()
            for block in model[::2]:
                block.compile(backend="aot_eager")
            return model
        self.expect_plain(make, share=0.1)

    def test_what_writes_in_place(self):
        self.expect_plain(lambda: self.model(inplace=True), share=0.15)

    def test_batch_norm_counts_once(self):
        def make():
            torch.manual_seed(1)
            return nn.Sequential(*[
                part for _ in range(6)
                for part in (nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16), nn.GELU())])
        images = torch.randn(16, 16, 32, 32)
        model = []

        def made():
            model[:] = [make()]
            return model[0]
        self.expect_plain(made, loss_of=lambda: model[0](images).square().mean())

    def test_generators_of_the_user_stay_where_they_are(self):
        states = []

        def between():
            states.append(torch.get_rng_state())
            torch.manual_seed(77)  # of no interest for what was drawn before
        self.expect_plain(self.model, between=between)
        for one, other in zip(states[:3], states[-3:], strict=True):
            self.assertTrue(torch.equal(one, other))

    def test_settings_that_change_before_the_backward(self):
        def between():
            torch.set_num_threads(2)
            torch.set_default_dtype(torch.float64)
            torch.use_deterministic_algorithms(True)
            torch.backends.mkldnn.enabled = False

        def reset():
            torch.set_num_threads(1)
            torch.set_default_dtype(torch.float32)
            torch.use_deterministic_algorithms(False)
            torch.backends.mkldnn.enabled = True

        def loss_of():
            reset()
            return self.now(self.input).square().mean()

        def make():
            reset()
            self.now = self.model()
            return self.now
        self.addCleanup(reset)
        self.expect_plain(make, between=between, loss_of=loss_of)

    def test_settings_of_the_process_stay_while_another_session_may_compute(self):
        peak, saved = self.peak_of(self.model)
        model = self.model()
        other = spillway.session(nn.Linear(2, 2), device_budget="64MiB")
        self.addCleanup(other.close)
        session = spillway.session(model, device_budget=int(peak - 0.2 * saved))
        self.addCleanup(session.close)

        def between():
            torch.backends.mkldnn.enabled = False

        def loss_of():
            torch.backends.mkldnn.enabled = True
            return model(self.input).square().mean()
        self.addCleanup(setattr, torch.backends.mkldnn, "enabled", True)
        with self.assertRaisesRegex(RuntimeError, 'oneDNN .* was switched .* another session is open.* recompute "off"'):
            self.train(model, session, between=between, loss_of=loss_of)

    def test_a_backward_twice_and_one_of_a_backward(self):
        for create_graph in (False, True):
            results = []
            for recompute in ("off", "on"):
                model = self.model(2)
                budget = "1GiB" if recompute == "off" else "24MiB"
                session = spillway.session(model, device_budget=budget, recompute=recompute, host_budget="64MiB")
                torch.manual_seed(3)
                with session:
                    x = self.input.clone().requires_grad_()
                    loss = model(x).square().mean()
                    if create_graph:
                        gradient, = torch.autograd.grad(loss, x, create_graph=True)
                        loss = gradient.square().sum()
                    loss.backward(retain_graph=True)
                    loss.backward()
                results.append([p.grad.clone() for p in model.parameters()])
                session.close()
            for one, other in zip(*results, strict=True):
                self.assertTrue(torch.equal(one, other), create_graph)

    def test_autocast(self):
        def loss_of():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.now(self.input).float().square().mean()

        def make():
            self.now = self.model(blocks=3)  # products of bfloat16 are slow on many processors
            return self.now
        self.expect_plain(make, loss_of=loss_of)

    def test_modes_and_transforms_of_whoever_runs_the_backward(self):
        class Counts(torch.utils._python_dispatch.TorchDispatchMode):
            names = []

            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                self.names.append(str(function))
                return function(*args, **(kwargs or {}))
        model = self.model()
        session = spillway.session(model, device_budget="20MiB", recompute="on", host_budget="64MiB")
        with session:
            loss = model(self.input).square().mean()
        with Counts():
            loss.backward()
        self.assertGreater(session.report()["recomputed_values"], 0)
        session.close()
        self.assertNotIn("aten.native_layer_norm.default", Counts.names, "what runs again is nobody's")
        self.assertNotIn("aten.gelu.default", Counts.names)

    def test_a_kernel_that_no_operator_shows_stops_the_step_or_is_kept(self):
        """Writes through a pointer, as Triton's kernels do: no version moves."""
        import ctypes

        class Doubles(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x + 0
                for i in range(0, y.numel(), 997):
                    at = ctypes.c_float.from_address(y.data_ptr() + 4 * i)
                    at.value = at.value * 2
                return y

            @staticmethod
            def backward(ctx, gradient):
                return gradient

        def make():
            torch.manual_seed(1)
            self.now = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(16)])
            return self.now

        def loss_of():
            x = self.input
            for layer in self.now:
                x = layer(Doubles.apply(torch.sin(x)))
            return x.square().mean()
        expected = self.train(make(), loss_of=loss_of)
        session = spillway.session(make(), device_budget="24MiB", recompute="on", host_budget="64MiB")
        actual = self.train(self.now, session, loss_of=loss_of)
        session.close()
        for one, other in zip(expected[1], actual[1], strict=True):
            self.assertTrue(torch.equal(one, other))

    def test_a_tensor_that_is_written_before_the_graph_alone_holds_it_is_no_source(self):
        """Plain training never asks for what was written, but for what was made of it before."""
        def gradient(squeeze=lambda: None):
            x = (self.input * 0.5).requires_grad_()
            weight = torch.full((WIDTH,), 0.5, requires_grad=True)
            with (session or contextlib.nullcontext()):
                hidden = torch.sigmoid(x)
                wave = torch.tanh(hidden)
                loss = (wave * weight).sum()
                with torch.no_grad():
                    hidden.mul_(2)
                del hidden, wave
                squeeze()
            return torch.autograd.grad(loss, weight)[0]

        session = None
        expected = gradient()
        session = spillway.session(nn.Module(), device_budget="10MiB")
        fill = []

        def squeeze():
            with contextlib.suppress(torch.OutOfMemoryError):
                torch.empty(9 << 20, dtype=torch.uint8)
        with session:
            fill.append(torch.empty(3 << 20, dtype=torch.uint8))
        try:
            self.assertTrue(torch.equal(gradient(squeeze), expected))
        finally:
            fill.clear()
            session.close()

    def test_what_is_made_of_a_tensor_that_a_function_writes(self):
        class Writes(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.sin()

            @staticmethod
            def backward(ctx, gradient):
                x, = ctx.saved_tensors
                gradient = gradient * x.cos()
                x.data.add_(1)
                return gradient

        def run(session):
            torch.manual_seed(2)
            leaf = torch.randn(ROWS, WIDTH, requires_grad=True)
            with session or contextlib.nullcontext():
                x = leaf * 2
                for _ in range(12):
                    y = x + 0.5
                    x = Writes.apply(y) * y.exp().sigmoid()
                loss = x.square().mean()
            loss.backward()
            return leaf.grad
        expected = run(None)
        session = spillway.session(nn.Linear(1, 1), device_budget="30MiB", recompute="on", host_budget="64MiB")
        self.assertTrue(torch.equal(expected, run(session)))
        self.assertGreater(session.report()["recomputed_values"], 0)
        session.close()

    def train_in_one_entry(self, make, session_of, optimizer_of, steps: int):
        """Losses and gradients; the optimizer steps inside the one `with` that there is, and no step is reported."""
        model = make()
        session = session_of(model)
        optimizer = optimizer_of(model.parameters(), lr=0.01)
        losses = []
        torch.manual_seed(5)
        try:
            with session or contextlib.nullcontext():
                for _ in range(steps):
                    optimizer.zero_grad()
                    loss = model(self.input).square().mean()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
            report = session and session.report()
        finally:
            if session:
                session.close()
        return [torch.tensor(losses)] + [p.grad.clone() for p in model.parameters()], report

    def test_one_entry_around_all_steps(self):
        """What an optimizer wrote can be used in the next step as it was in the first."""
        def of(policy, budget):
            return lambda model: spillway.session(model, device_budget=budget, policy=policy)
        for optimizer in (torch.optim.SGD, torch.optim.Adam):
            expected, _ = self.train_in_one_entry(self.model, lambda model: None, optimizer, steps=4)
            _, report = self.train_in_one_entry(self.model, of("keep_all", "1GiB"), optimizer, steps=2)
            budget = int(report["device_peak_bytes"] - 0.5 * report["saved_bytes"] // 2)
            for policy in ("online", "auto"):
                with self.subTest(optimizer=optimizer.__name__, policy=policy):
                    actual, report = self.train_in_one_entry(self.model, of(policy, budget), optimizer, steps=4)
                    self.assertGreater(report["recomputed_values"], 0)
                    for one, other in zip(expected, actual, strict=True):
                        self.assertTrue(torch.equal(one, other))

    def test_a_larger_entry_after_small_ones(self):
        """However far the budget was before."""
        def train(session, model):
            torch.manual_seed(5)
            gradients = []
            for rows in (32, 32, 32, ROWS):
                model.zero_grad()
                with session or contextlib.nullcontext():
                    loss = model(self.input[:rows]).square().mean()
                loss.backward()
                gradients += [p.grad.clone() for p in model.parameters()]
            return gradients

        expected = train(None, self.model())
        model = self.model()
        session = spillway.session(model, device_budget="1GiB", policy="keep_all")
        train(session, model)
        peak = session.report()["device_peak_bytes"]
        session.close()
        for recompute, places in (("auto", {}), ("on", {"host_budget": "1MiB"})):
            with self.subTest(recompute):
                model = self.model()
                session = spillway.session(
                    model, device_budget=peak - (5 << 20), recompute=recompute, policy="online", **places)
                actual = train(session, model)
                self.assertGreater(session.report()["recomputed_values"], 0)
                session.close()
                for one, other in zip(expected, actual, strict=True):
                    self.assertTrue(torch.equal(one, other))

    def test_a_write_that_no_version_tells_stops_the_step(self):
        def make():
            torch.manual_seed(1)
            return nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(12)])
        peak, saved = self.peak_of(make)
        model = make()

        def between():
            for parameter in model.parameters():
                parameter.data.mul_(2)
        session = spillway.session(model, device_budget=int(peak - 0.5 * saved))
        with self.assertRaisesRegex(Exception, 'was written before .* With recompute "off" nothing is made again'):
            self.train(model, session, between=between)
        session.close()

    def test_what_a_gradient_was_added_to_is_made_again_with_what_the_gradient_was(self):
        """Backward adds to gradients, by no operator that is seen."""
        def train(model, session=None):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
            torch.manual_seed(5)
            for _ in range(4):
                with session or contextlib.nullcontext():
                    x = torch.randn(WIDTH + 64, WIDTH, generator=torch.Generator().manual_seed(3))
                    for block, other in zip(model, [*model[1:], model[0]], strict=True):
                        gradient = other.up.weight.grad
                        if gradient is not None:
                            x = torch.cat([x[:WIDTH] + gradient, x[WIDTH:]])
                        x = block(torch.tanh(x))
                    loss = x.square().mean()
                loss.backward()
                optimizer.step()
            return [p.grad.clone() for p in model.parameters()]

        model, expected = self.model(), train(self.model())
        with contextlib.closing(spillway.session(model, device_budget="1GiB", policy="keep_all")) as session:
            train(model, session)
            report = session.report()
        model = self.model()
        budget = int(report["device_peak_bytes"] - 0.4 * report["saved_bytes"] / 4)
        with contextlib.closing(spillway.session(model, device_budget=budget)) as session:
            actual = train(model, session)
            self.assertGreater(session.report()["recomputed_values"], 0)
        for one, other in zip(expected, actual, strict=True):
            self.assertTrue(torch.equal(one, other))

    def test_spectral_norm_updates_its_vectors_once(self):
        def make():
            torch.manual_seed(1)
            norm = torch.nn.utils.parametrizations.spectral_norm
            return nn.Sequential(*[nn.Sequential(norm(nn.Linear(WIDTH, WIDTH)), nn.GELU()) for _ in range(8)])
        self.assertEqual(len(list(make().buffers())), 16)
        self.expect_plain(make, share=0.4)

    def test_two_threads_go_backward_through_one_graph(self):
        model = self.model().eval()
        expected = torch.autograd.grad(model(self.input).square().mean(), list(model.parameters()))
        _, saved = self.peak_of(self.model)
        gradients = sum(each.nbytes for each in expected)
        # Something has to go before the backwards begin; each has gradients of its own.
        session = spillway.session(model, device_budget=gradients + 3 * saved // 4 + 2 * gradients)
        self.assertGreater(saved // 4, 2 * gradients)
        self.addCleanup(session.close)
        with session:
            loss = model(self.input).square().mean()
        found = {}

        def backward(name):
            try:
                found[name] = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
            except Exception as raised:
                found[name] = raised
        threads = [threading.Thread(target=backward, args=(name,)) for name in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertGreater(session.report()["recomputed_values"], 0)
        del loss
        session.close()
        for name in range(2):
            self.assertIsInstance(found[name], tuple, found[name])
            for one, other in zip(expected, found[name], strict=True):
                self.assertTrue(torch.equal(one, other))

    def steps_of(self, model, loss_of, steps: int, session=None):
        """Losses and the last gradients; `loss_of` knows the step's number."""
        numbers = iter(range(steps))
        losses, gradients, _ = self.train(model, session, steps, loss_of=lambda: loss_of(model, next(numbers)))
        return losses, gradients

    def expect_steps(self, expected, model, policy, budget, loss_of, steps: int):
        """The last of the steps are not the one that was planned; the bits are those of plain training."""
        session = spillway.session(model, device_budget=budget, policy=policy)
        try:
            losses, gradients = self.steps_of(model, loss_of, steps, session)
            report = session.report()
        finally:
            session.close()
        self.assertEqual(expected[0], losses)
        for one, other in zip(expected[1], gradients, strict=True):
            self.assertTrue(torch.equal(one, other))
        return report

    def test_a_larger_batch_than_the_planned_one_where_there_is_no_place(self):
        """What the plan keeps is made again, too, before the step fails."""
        more = torch.cat([self.input, self.input])
        def loss_of(model, step):
            return model(self.input if step < 6 else more).square().mean()
        peak, saved = self.peak_of(self.model)
        expected = self.steps_of(self.model(), loss_of, 8)
        for policy in ("rotor", "auto"):
            for share in (-0.6, -0.2):  # of what the planned step saves; twice of that is saved then
                with self.subTest(policy, share=share):
                    report = self.expect_steps(
                        expected, self.model(), policy, int(peak - share * saved), loss_of, 8)
                    self.assertEqual(report["plan"]["refusal"], "")
                    self.assertGreater(report["recomputed_values"], 0)

    def test_other_operators_than_the_planned_ones_where_there_is_no_place(self):
        """A step's recipes are known whatever operators the plan's need."""
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(8)])

            def forward(self, x, function):
                for layer in self.layers:
                    x = function(layer(x))
                return x

        def make():
            torch.manual_seed(1)
            return Two()
        def loss_of(model, step):
            return model(self.input, nn.functional.gelu if step < 7 else nn.functional.silu).square().mean()
        planned = make()
        peak, saved = self.peak_of(lambda: planned, loss_of=lambda: loss_of(planned, 0))
        expected = self.steps_of(make(), loss_of, 9)
        for policy in ("rotor", "auto"):
            for share in (0.3, 0.5):
                with self.subTest(policy, share=share):
                    self.expect_steps(expected, make(), policy, int(peak - share * saved), loss_of, 9)

    def test_nothing_stays_after_the_graph(self):
        model = self.model()
        session = spillway.session(model, device_budget="20MiB", recompute="on", host_budget="64MiB")
        for _ in range(3):
            with session:
                loss = model(self.input).square().mean()
            loss.backward()
        del loss
        model.zero_grad()
        gc.collect()
        owned = sum(p.nbytes for p in model.parameters())
        self.assertLess(session.report()["device_bytes"], owned + (1 << 16))
        session.close()


if __name__ == "__main__":
    unittest.main()
