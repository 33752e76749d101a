# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Custom operators that a user allows to run again: plain training's bits, and no place to move to."""

import contextlib
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


def with_autograd(name: str, body: Any = scaled) -> Any:
    """A norm that saves what it was given, so that its result is another operator's input alone."""
    operator = torch.library.custom_op(f"spillway_custom_test::{name}", body, mutates_args=(), schema="(Tensor x, Tensor weight) -> Tensor")

    def keep(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaves = [each.detach().requires_grad_() for each in ctx.saved_tensors]
            return torch.autograd.grad(scaled(*leaves), leaves, gradient)

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
    def model(self, operator: Any) -> torch.nn.Module:
        return seeded(lambda: torch.nn.Sequential(*(Layer(operator) for _ in range(LAYERS))))

    def trained(self, operator: Any, begin: Callable[[], object] = lambda: None, **options: Any) -> tuple[list[str], dict[str, Any], str]:
        """Gradients, what the report says, and what `explain` does. `begin` runs before each step."""
        model, batch = self.model(operator), noise(ROWS, WIDTH)
        session = spillway.session(model, **options) if options else None
        for _ in range(4):
            begin()
            model.zero_grad()
            with session or contextlib.nullcontext():
                loss = model(batch).square().mean()
            loss.backward()
        found = gradients(model)
        if session is None:
            return found, {}, ""
        report, words = dict(session.report()), session.explain()
        session.close()
        return found, report, words

    def expect_plain(self, operator: Any, begin: Callable[[], object] = lambda: None) -> tuple[dict[str, Any], str]:
        expected, _, _ = self.trained(operator, begin)
        actual, report, words = self.trained(operator, begin, device_budget="64MiB", policy="recompute_all")
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
