# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""torch.compile: whole models and block by block. What a compiled forward saves for its backward may leave."""

import unittest

import torch
import torch._dynamo
from same_bits import Case, bits, gradients, noise, seeded, tokens
from transformers_test import llama, next_word

WIDTH = 128


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))).sin())


def blocks(count=4):
    return torch.nn.Sequential(*[Block() for _ in range(count)])


def whole(backend, make=blocks, **options):
    def compiled():
        model = make()
        model.compile(backend=backend, **options)
        return model
    return compiled


def block_by_block(backend):
    def compiled():
        model = blocks()
        for block in model:
            block.compile(backend=backend)
        return model
    return compiled


def loss_of(model, step, rows=512):
    return model(noise(rows, WIDTH, step=step)).square().mean()


def twice(model, step):
    """What a compiled forward saves can leave when it has ended: while the next one runs."""
    return loss_of(model, step, 300) + loss_of(model, step + 9, 300)


class Compiled(Case):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    def test_whole(self):
        for backend in ("eager", "aot_eager"):
            with self.subTest(backend):
                self.check(whole(backend), twice)

    def test_block_by_block(self):
        for backend in ("eager", "aot_eager"):
            with self.subTest(backend):
                self.check(block_by_block(backend), loss_of)

    def test_a_model_of_transformers(self):
        self.check(whole("aot_eager", llama("sdpa")),
                   lambda model, step: next_word(model, step) + next_word(model, step + 9))

    def test_a_compiled_backward_inside(self):
        self.check(block_by_block("aot_eager"), loss_of, inside=True)

    def test_shapes_that_change(self):
        self.check(block_by_block("aot_eager"), lambda model, step: loss_of(model, step, 512 - 64 * step), steps=3)

    def test_a_graph_break(self):
        class Broken(Block):
            def forward(self, x):
                y = super().forward(x)
                torch._dynamo.graph_break()
                return super().forward(y)

        self.check(whole("aot_eager", lambda: torch.nn.Sequential(Broken(), Broken())), twice)

    def test_the_default_backend(self):
        self.check(block_by_block("inductor"), loss_of)

    def test_compiled_autograd(self):
        """torch holds what a compiled backward needs beyond its end, so values of other graphs have to leave."""
        def run(session_of):
            model = seeded(lambda: blocks(2))
            session = session_of(model)
            with session:
                losses = [loss_of(model, step) for step in range(4)]
            with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
                for loss in losses:
                    loss.backward()
            return bits(losses) + gradients(model)

        plain = run(lambda model: torch.enable_grad())
        self.assertEqual(run(lambda model: self.open(model, "28MiB")), plain)
        self.assertGreater(self.sessions[0].report()["loaded_bytes"], 0)


class Functional(Case):
    def test_torch_func_inside_a_session(self):
        net = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())
        parameters = dict(net.named_parameters())

        def loss(parameters, x):
            return torch.func.functional_call(net, parameters, (x,)).square().mean()

        def results():
            x = noise(512, WIDTH)
            return [torch.func.grad(loss)(parameters, x)["0.weight"],
                    torch.func.vmap(lambda row: loss(parameters, row))(x),
                    torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x[:8])["0.weight"],
                    torch.func.jvp(lambda x: loss(parameters, x), (x,), (x,))[1],
                    torch.func.hessian(lambda x: net(x).sum())(x[0]),
                    torch.func.jacrev(lambda x: net(x).sum(0))(x[:16])]

        plain = results()
        session = self.open(net, "64MiB")
        with session:
            inside = results()
        for number, (one, other) in enumerate(zip(plain, inside, strict=True)):
            self.assertTrue(torch.equal(one, other), number)
        session.close()

    def test_functional_call_under_a_budget(self):
        def loss_of(model, step):
            words = tokens(4, 1024, step=step)
            x = noise(1024, WIDTH, step=step)
            out = torch.func.functional_call(model, dict(model.named_parameters()), (x,))
            return torch.nn.functional.cross_entropy(out[:, :4], words)

        self.check(blocks, loss_of)


if __name__ == "__main__":
    unittest.main()
