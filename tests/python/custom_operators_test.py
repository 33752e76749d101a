# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Custom operators that a user allows to run again: plain training's bits, and no place to move to."""

import contextlib
import threading
import unittest
from collections.abc import Callable
from typing import Any

import spillway
import torch
from same_bits import Case, bits, gradients, noise, seeded
from torch import Tensor

WIDTH, ROWS, LAYERS = 256, 1024, 6  # 1 MiB an activation


def scaled(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def with_autograd(name: str, body: Any = scaled, flag: str = "") -> Any:
    """A norm that saves what it was given, so that its result is another operator's input alone. `flag`: one more argument."""
    operator = torch.library.custom_op(f"spillway_custom_test::{name}", body, mutates_args=(),
                                       schema=f"(Tensor x, Tensor weight{flag}) -> Tensor")

    def keep(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        with torch.enable_grad():
            leaves = [each.detach().requires_grad_() for each in ctx.saved_tensors]
            return (*torch.autograd.grad(scaled(*leaves), leaves, gradient), *([None] if flag else []))

    operator.register_autograd(backward, setup_context=keep)
    return operator


class Layer(torch.nn.Module):
    def __init__(self, operator: Any) -> None:
        super().__init__()
        self.operator, self.weight = operator, torch.nn.Parameter(torch.ones(WIDTH))
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.operator(x, self.weight))


class CustomOperators(Case):
    seeding = threading.Lock()  # of the one generator that all threads draw from

    def model(self, operator: Any) -> torch.nn.Module:
        with self.seeding:
            return seeded(lambda: torch.nn.Sequential(*(Layer(operator) for _ in range(LAYERS))))

    def trained(self, operator: Any, begin: Callable[[], object] = lambda: None, between: Callable[[], object] = lambda: None,
                **options: Any) -> tuple[list[str], dict[str, Any], str]:
        """Gradients, what the report says, and what `explain` does. `begin` runs before each step, `between` in it."""
        model, batch = self.model(operator), noise(ROWS, WIDTH)
        session = spillway.session(model, **options) if options else None
        for _ in range(4):
            begin()
            model.zero_grad()
            with session or contextlib.nullcontext():
                loss = model(batch).square().mean()
            between()
            loss.backward()
        found = gradients(model)
        if session is None:
            return found, {}, ""
        report, words = dict(session.report()), session.explain()
        session.close()
        return found, report, words

    def expect_plain(self, operator: Any, begin: Callable[[], object] = lambda: None,
                     between: Callable[[], object] = lambda: None) -> tuple[dict[str, Any], str]:
        expected, _, _ = self.trained(operator, begin, between)
        actual, report, words = self.trained(operator, begin, between, device_budget="64MiB", policy="recompute_all")
        self.assertEqual(expected, actual)
        return report, words

    def test_one_that_is_allowed_runs_again(self) -> None:
        operator = spillway.allow_recompute(with_autograd("norm"))
        report, words = self.expect_plain(operator)
        self.assertGreaterEqual(report["recomputed_values"], LAYERS - 1)
        self.assertEqual(report["refused_recipes"], 0)
        self.assertRegex(words, r"\bnorm of ")

    def test_one_that_is_not_does_not(self) -> None:
        operator = with_autograd("unknown_norm")
        report, words = self.expect_plain(operator)
        self.assertEqual(report["recomputed_values"], 0)  # each other tensor is made from a norm
        self.assertRegex(words, "not made again: (it is .*another library's|an operator that is not PyTorch's made it)")

    def test_one_whose_backward_reads_its_result_runs_again(self) -> None:
        body = torch.library.custom_op("spillway_custom_test::squashed", lambda x, weight: torch.tanh(x) * 1.0,
                                       mutates_args=(), schema="(Tensor x, Tensor weight) -> Tensor")
        body.register_autograd(lambda ctx, gradient: (gradient * (1 - ctx.saved_tensors[0].square()), None),
                               setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output))
        report, words = self.expect_plain(spillway.allow_recompute(body))
        self.assertGreaterEqual(report["recomputed_values"], LAYERS - 1)
        self.assertRegex(words, r"\bsquashed of ")

    def test_one_that_gives_other_bits_is_found_out(self) -> None:
        seen: set[str] = set()

        def drifting(x: Tensor, weight: Tensor) -> Tensor:
            [digest] = bits([x])
            result = scaled(x, weight) + (1 if digest in seen else 0)
            seen.add(digest)
            return result

        operator = spillway.allow_recompute(with_autograd("drifting", drifting))
        report, _ = self.expect_plain(operator, begin=seen.clear)
        self.assertGreater(report["refused_recipes"], 0)

    def test_a_flag_that_chooses_a_kernel_is_tried_by_itself(self) -> None:
        seen: set[str] = set()
        turns: list[None] = []

        def drifting(x: Tensor, weight: Tensor, drifts: bool) -> Tensor:
            [digest] = bits([x])
            result = scaled(x, weight) + (1 if drifts and digest in seen else 0)
            seen.add(digest)
            return result

        def each_second_layer_drifts(x: Tensor, weight: Tensor) -> Any:
            turns.append(None)
            return operator(x, weight, len(turns) % 2 == 0)

        operator = spillway.allow_recompute(with_autograd("with_flag", drifting, ", bool drifts"))
        report, _ = self.expect_plain(each_second_layer_drifts, begin=seen.clear)
        self.assertGreater(report["refused_recipes"], 0)
        self.assertGreaterEqual(report["recomputed_values"], LAYERS // 2 - 1)

    def test_one_that_was_defined_anew_is_not_allowed(self) -> None:
        spillway.allow_recompute(with_autograd("other"))
        operator = with_autograd("other", lambda x, weight, flag: scaled(x, weight) * (2 if flag else 1), ", bool flag")
        report, words = self.expect_plain(lambda x, weight: operator(x, weight, True))
        self.assertEqual((report["recomputed_values"], report["refused_recipes"]), (0, 0))
        self.assertRegex(words, "not made again: (it is .*another library's|an operator that is not PyTorch's made it)")

    def test_a_kernel_in_python_runs_in_the_backwards_of_two_threads(self) -> None:
        operator = spillway.allow_recompute(with_autograd("of_two_threads"))
        expected, _, _ = self.trained(operator)
        found: list[tuple[list[str], dict[str, Any], str]] = []
        meet = threading.Barrier(2)
        threads = [threading.Thread(target=lambda: found.append(self.trained(
            operator, between=meet.wait, device_budget="64MiB", policy="recompute_all"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for actual, report, _ in found:
            self.assertEqual(actual, expected)
            self.assertGreaterEqual(report["recomputed_values"], LAYERS - 1)
        self.assertEqual(len(found), 2)

    def test_it_runs_again_under_the_settings_that_it_ran_under(self) -> None:
        operator = spillway.allow_recompute(with_autograd("of_settings", lambda x, weight: scaled(x, weight) + torch.tensor(0.1)))
        expected, _, _ = self.trained(operator)
        self.addCleanup(torch.set_default_dtype, torch.get_default_dtype())
        actual, report, _ = self.trained(
            operator, begin=lambda: torch.set_default_dtype(torch.float32), between=lambda: torch.set_default_dtype(torch.float64),
            device_budget="64MiB", policy="recompute_all")
        self.assertEqual(actual, expected)
        self.assertGreaterEqual(report["recomputed_values"], LAYERS - 1)

    def test_one_that_draws_random_numbers_is_found_out_and_draws_none(self) -> None:
        def drawing(x: Tensor, weight: Tensor) -> Tensor:
            torch.rand(8)  # that nobody needs: its result has the same bits each time
            return scaled(x, weight)

        operator = spillway.allow_recompute(with_autograd("drawing", drawing))
        report, words = self.expect_plain(operator, begin=lambda: torch.manual_seed(3))
        after = torch.get_rng_state()
        self.trained(operator, lambda: torch.manual_seed(3))
        self.assertTrue(torch.equal(torch.get_rng_state(), after))
        self.assertGreater(report["refused_recipes"], 0)
        self.assertIn("drawing gave other bits, failed or drew random numbers when it ran again", words)

    def test_what_ran_under_autocast_is_left_alone(self) -> None:
        def product(x: Tensor, weight: Tensor) -> Tensor:
            return torch.mm(x, torch.eye(WIDTH) * 1.1).to(x.dtype) * weight

        operator, turns = spillway.allow_recompute(with_autograd("product", product)), []

        def each_second_time() -> None:
            turns.append(torch.autocast("cpu", torch.bfloat16, enabled=len(turns) % 2 == 1))
            turns[-1].__enter__()

        report, _ = self.expect_plain(operator, each_second_time, lambda: turns[-1].__exit__(None, None, None))
        self.assertEqual(report["refused_recipes"], 0)

    def test_one_that_was_defined_anew_before_backward_is_named(self) -> None:
        operator = spillway.allow_recompute(with_autograd("anew"))
        steps = []

        def define_anew() -> None:
            steps.append(None)
            if len(steps) == 4:
                torch.library.custom_op("spillway_custom_test::anew", lambda x, weight, flag: x * 2, mutates_args=(),
                                        schema="(Tensor x, Tensor weight, bool flag) -> Tensor")

        with self.assertRaisesRegex(RuntimeError, "anew cannot run again: it was removed or defined anew after it ran"):
            self.trained(operator, between=define_anew, device_budget="64MiB", policy="recompute_all")

    def test_an_interrupt_of_its_kernel_is_the_programs(self) -> None:
        seen: set[str] = set()

        def interrupted(x: Tensor, weight: Tensor) -> Tensor:
            [digest] = bits([x])
            if digest in seen:
                raise KeyboardInterrupt
            seen.add(digest)
            return scaled(x, weight)

        operator = spillway.allow_recompute(with_autograd("interrupted", interrupted))
        with self.assertRaises(KeyboardInterrupt):
            self.trained(operator, seen.clear, device_budget="64MiB", policy="recompute_all")

    def test_it_is_named_in_any_of_torchs_ways(self) -> None:
        operator = with_autograd("by_name")
        packet = torch.ops.spillway_custom_test.by_name
        for named in (operator, packet, packet.default, "spillway_custom_test::by_name"):
            self.assertIs(spillway.allow_recompute(named), named)

    def test_what_cannot_be_is_said_in_one_line(self) -> None:
        torch.library.define("spillway_custom_test::write", "(Tensor(a!) x) -> ()")
        for wrong, words in (
            ("spillway_custom_test::write", "operator: spillway_custom_test::write cannot be run again: it writes to its arguments"),
            ("no_library::norm", "there is no such operator"),
            (torch.ops.aten.mm, "it is one of PyTorch's"),
            (scaled, "expected a custom operator or its name, got function"),
            (3, "got int"),
        ):
            with self.assertRaises(spillway.OptionError) as raised:
                spillway.allow_recompute(wrong)
            self.assertIn(words, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
