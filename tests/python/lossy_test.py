# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Codecs on the way off the device: what is exact gives the plain bits, what is lossy was asked for."""

import contextlib
import os
import subprocess
import sys
import unittest

import spillway
import torch

import same_bits

WIDTH = 256
STEPS = 4


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.wide = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.narrow = torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.norm(x))))


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(*[Block() for _ in range(6)])


def losses(net: torch.nn.Module, session: spillway.Session | None = None) -> list[float]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    told = []
    for number in range(STEPS):
        x = torch.randn(1024, WIDTH, generator=torch.Generator().manual_seed(number))
        if session is None:
            loss = net(x).square().mean()
        else:
            with session:
                loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        told.append(loss.item())
    return told


class Lossy(same_bits.Case):
    def open(self, net: torch.nn.Module, **options) -> spillway.Session:
        return super().open(net, "32MiB", **options)

    def test_qpo_trains_nearly_as_plain_and_reports_each_class(self):
        plain = losses(model())
        net = model()
        session = self.open(net, policy="qpo", lossy=True)
        lossy = losses(net, session)
        for one, other in zip(lossy, plain, strict=True):
            self.assertAlmostEqual(one / other, 1, delta=0.02)
        self.assertNotEqual(lossy, plain)
        report = session.report()
        self.assertLessEqual(report["device_peak_bytes"], 32 << 20)
        rows = {row["tensor_class"]: row for row in report["codecs"]}
        self.assertEqual(set(rows), {"linear_input", "norm_input", "activation_input"})
        self.assertIn("affine4", rows["linear_input"]["codec"])
        self.assertIn("affine8", rows["norm_input"]["codec"])
        for row in rows.values():
            self.assertGreater(row["raw_bytes"], 3 * row["encoded_bytes"])
        self.assertIn("linear_input", str(report))

    def test_a_codec_that_is_named_is_in_place_of_qpos(self):
        net = model()
        session = self.open(net, policy="qpo", lossy=True, codec="nf4,norm_input=identity")
        losses(net, session)
        codecs = {row["tensor_class"]: row["codec"] for row in session.report()["codecs"]}
        self.assertEqual(codecs, {"linear_input": "nf4", "activation_input": "nf4"})

    def test_exact_codecs_give_the_plain_bits(self):
        plain = losses(model())
        for options in ({"codec": "all=lossless"}, {"policy": "qpo", "codec": "all=identity"}):
            net = model()
            session = self.open(net, **options)
            self.assertEqual(losses(net, session), plain, options)
            self.assertGreater(session.report()["stored_bytes"], 0)
            session.close()

    def test_custom_functions_keep_their_bits(self):
        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                context.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(context, gradient):
                (x,) = context.saved_tensors
                return 2 * x * gradient

        def gradient(session: spillway.Session | None) -> torch.Tensor:
            x = torch.randn(1024, WIDTH, generator=torch.Generator().manual_seed(3), requires_grad=True)

            def forward() -> torch.Tensor:
                h = x * 1.5
                for _ in range(40):
                    h = Doubled.apply(h).sin()
                return h.sum()
            if session is None:
                forward().backward()
            else:
                with session:
                    loss = forward()
                loss.backward()
            return x.grad

        plain = gradient(None)
        session = self.open(torch.nn.Linear(4, 4), policy="qpo", lossy=True)
        self.assertTrue(torch.equal(gradient(session), plain))
        report = session.report()
        self.assertGreater(report["stored_bytes"], 0)
        self.assertEqual(report["codecs"], [])

    def expect_plain_bits(self, make, dtype: torch.dtype = torch.float32, **options) -> spillway.Session:
        """One step of `make()` under QPO has the gradients of plain training, and moves something."""
        def step(net: torch.nn.Module, session: spillway.Session | None) -> list[torch.Tensor]:
            torch.manual_seed(5)
            x = torch.randn(1024, WIDTH, dtype=dtype)
            with session or contextlib.nullcontext():
                loss = net(x).square().mean()
            loss.backward()
            return [parameter.grad for parameter in net.parameters()]

        plain = step(make(), None)
        net = make()
        session = self.open(net, policy="qpo", lossy=True, **options)
        for one, other in zip(step(net, session), plain, strict=True):
            self.assertTrue(torch.equal(one, other))
        self.assertGreater(session.report()["loaded_bytes"], 0)
        return session

    def test_a_part_of_a_storage_goes_as_it_is(self):
        class Part(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(WIDTH - 56, WIDTH)

            def forward(self, x):
                padded = torch.full((1024, 2 * WIDTH), float("inf"))
                padded[:, :WIDTH - 56] = x[:, :WIDTH - 56]
                return self.linear(padded[:, :WIDTH - 56])

        def make() -> torch.nn.Module:
            torch.manual_seed(1)
            return torch.nn.Sequential(*[Part() for _ in range(24)])

        session = self.expect_plain_bits(make, nonfinite="refuse")
        self.assertEqual(session.report()["codecs"], [])

    def test_refuse_is_for_what_is_not_finite(self):
        def make() -> torch.nn.Module:
            torch.manual_seed(1)
            blocks = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Dropout(0.1)) for _ in range(12)]
            return torch.nn.Sequential(*blocks).double()

        session = self.expect_plain_bits(make, torch.float64, nonfinite="refuse")
        self.assertEqual([row["tensor_class"] for row in session.report()["codecs"]], ["mask"])

    def test_neither_sessions_nor_ranks_share_their_errors(self):
        code = "; ".join([
            "import torch, spillway",
            "torch.manual_seed(1)",
            "net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(40)])",
            "x = torch.randn(1024, 256)",
            f"open = lambda: spillway.session(net, device_budget='32MiB', nvme={self.folder!r}, lossy=True, "
            "codec='affine4:stochastic')"])
        code += """
for session in (open(), open()):
    with session:
        loss = net(x).sum()
        try:
            torch.empty(32 << 20, dtype=torch.uint8)
        except torch.OutOfMemoryError:
            pass  # now all that can leave has left
        loss.backward()
    print(sum(p.grad.double().sum().item() for p in net.parameters()))
    net.zero_grad()
    session.close()
"""
        told = []
        for rank in ("0", "1", "0"):
            done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"RANK": rank}, check=True,
                                  capture_output=True, text=True)
            told.append(done.stdout.split())
        self.assertEqual(told[0], told[2])
        self.assertEqual(len(set(told[0] + told[1])), 4, told)

    def test_deterministic_algorithms_from_now_on(self):
        net = model()
        session = self.open(net, policy="qpo", lossy=True)
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        self.assertEqual(losses(net, session), losses(model()))
        self.assertEqual(session.report()["codecs"], [])
        self.assertGreater(session.report()["stored_bytes"], 0)

    def refused(self, words: str, **options) -> None:
        with self.assertRaises(spillway.OptionError) as raised:
            self.open(model(), **options)
        self.assertIn(words, str(raised.exception))
        self.assertEqual(len(str(raised.exception).splitlines()), 1)

    def test_what_cannot_be_is_refused(self):
        self.refused("policy: 'qpo' quantizes", policy="qpo")
        self.refused("codec: 'affine4' cannot be", codec="affine4")
        self.refused("lossy: policy online encodes nothing", lossy=True)
        self.refused("lossy: policy keep_all", lossy=True, policy="keep_all")
        self.refused("codec: affine9", policy="qpo", lossy=True, codec="affine9")
        self.refused("codec: ", policy="qpo", lossy=True, codec="weights=affine4")
        self.refused("codec: expected a name or a mapping such as {'attention': 'affine8'}, got 4", policy="qpo", lossy=True, codec=4)
        self.refused("lossy: expected True or False, got 1", policy="qpo", lossy=1)
        self.refused("nonfinite: unknown value 'zero'", policy="qpo", lossy=True, nonfinite="zero")
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        self.refused("lossy: lossy codecs cannot be used with deterministic algorithms", policy="qpo", lossy=True)


if __name__ == "__main__":
    unittest.main()
