# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Codecs where training is more than a forward and a backward: what they refuse, threads, a graph that is kept,
autocast, checkpoints."""

import contextlib
import threading
import unittest
from collections.abc import Iterator
from typing import Any

import spillway
import torch
import torch.utils.checkpoint
from same_bits import Case, bits, gradients, noise, seeded

WIDTH, ROWS = 256, 1024
BUDGET = "24MiB"
LOSSY = {"policy": "qpo", "lossy": True}


def net() -> torch.nn.Module:
    return torch.nn.Sequential(*[layer for _ in range(8) for layer in (torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH),
                                                                      torch.nn.GELU())])


def loss_of(model: torch.nn.Module, step: int = 0) -> torch.Tensor:
    return model(noise(ROWS, WIDTH, step=step)).square().mean()


def squeeze(session: spillway.Session) -> None:
    """What can leave, leaves."""
    limit = session.report()["device_limit_bytes"]
    for part in range(31, 0, -1):
        with contextlib.suppress(torch.OutOfMemoryError):
            torch.empty(limit * part // 32, dtype=torch.uint8)
            return


@contextlib.contextmanager
def squeezed(session: spillway.Session) -> Iterator[None]:
    with session:
        yield
        squeeze(session)


def rows_of(session: spillway.Session) -> dict[str, dict[str, Any]]:
    return {row["tensor_class"]: row for row in session.report()["codecs"]}


class NonFinite(Case):
    def backward_of_nan(self, model: torch.nn.Module, session: spillway.Session) -> None:
        """Of a batch with one NaN: the row that it is in has nothing else from there on."""
        x = noise(ROWS, WIDTH)
        x[3, 5] = float("nan")
        with session:
            loss = model(x).square().mean()
            squeeze(session)
        loss.backward()

    def test_refused_where_that_was_said(self):
        plain = self.train(seeded(net), loss_of)
        model = seeded(net)
        session = self.open(model, BUDGET, nonfinite="refuse", **LOSSY)
        with self.assertRaises(RuntimeError) as raised:
            self.backward_of_nan(model, session)
        said = str(raised.exception).splitlines()[0]
        self.assertRegex(said, r"^step 1, backward: affine8:group=256,stochastic cannot give back the saved tensor "
                               r"\[1024, 256\] float, output of addmm \(AddmmBackward0\) \(activation_input\): .*: "
                               r"element 768 is NaN or infinite$")
        session.close()
        model.zero_grad()
        self.assertEqual(self.train(model, loss_of), plain)

    def test_a_refused_step_is_left_out_and_the_session_goes_on(self):
        model = seeded(net)
        session = self.open(model, BUDGET, nonfinite="refuse", **LOSSY)
        with self.assertRaises(RuntimeError):
            self.backward_of_nan(model, session)
        model.zero_grad()
        with session:
            loss = loss_of(model)
            squeeze(session)
        loss.backward()
        self.assertEqual(bits([loss]), bits([loss_of(model)]))
        self.assertTrue(all(p.grad.isfinite().all() for p in model.parameters()))
        for row in rows_of(session).values():
            self.assertGreater(row["decoded_bytes"], 0)

    def test_otherwise_it_goes_as_it_is(self):
        model = seeded(net)
        session = self.open(model, BUDGET, **LOSSY)
        self.backward_of_nan(model, session)
        self.assertTrue(model[1].weight.grad.isnan().any())
        self.assertGreater(session.report()["loaded_bytes"], 0)
        self.assertGreater(rows_of(session)["linear_input"]["went_raw"], 0)


class Threads(Case):
    def test_two_sessions_with_codecs_of_their_own(self):
        plain = self.train(seeded(net), loss_of)
        options = {"exact": {"codec": "all=lossless"}, "lossy": {"codec": "nf4", **LOSSY}}
        models = {name: seeded(net) for name in options}
        sessions = {name: self.open(models[name], BUDGET, **options[name]) for name in options}
        seen: dict[str, list[str]] = {}
        begin = threading.Barrier(2)

        def work(name: str) -> None:
            begin.wait()
            seen[name] = self.train(models[name], loss_of, lambda: squeezed(sessions[name]))

        threads = [threading.Thread(target=work, args=(name,)) for name in options]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
            self.assertFalse(thread.is_alive(), "hangs")
        self.assertEqual(seen["exact"], plain)
        self.assertEqual(seen["lossy"][0], plain[0], "the first loss is of a forward alone")
        self.assertNotEqual(seen["lossy"], plain)
        for name, codec in (("exact", "lossless"), ("lossy", "nf4")):
            rows = rows_of(sessions[name])
            self.assertEqual({row["codec"] for row in rows.values()}, {codec})
            self.assertGreater(rows["linear_input"]["decoded_bytes"], 0)


class Graphs(Case):
    def test_a_graph_that_is_kept_gives_the_same_gradients_again(self):
        model = seeded(net)
        loss_of(model).backward()
        plain = gradients(model)
        session = self.open(model, BUDGET, **LOSSY)
        with squeezed(session):  # what left is read decoded, both times
            loss = loss_of(model)
        seen = []
        for keeps in (True, False):
            model.zero_grad()
            loss.backward(retain_graph=keeps)
            seen.append(gradients(model))
        self.assertEqual(seen[1], seen[0])
        self.assertNotEqual(seen[0], plain)
        for row in rows_of(session).values():
            self.assertGreater(row["decoded_bytes"], 0)

    def test_autocast(self):
        def gradient(model: torch.nn.Module, session: spillway.Session | None) -> tuple[float, torch.Tensor]:
            with squeezed(session) if session else contextlib.nullcontext():
                with torch.autocast("cpu", torch.bfloat16):
                    loss = loss_of(model)
            loss.backward()
            return loss.item(), torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

        loss, plain = gradient(seeded(net), None)
        model = seeded(net)
        session = self.open(model, BUDGET, **LOSSY)
        lossy_loss, lossy = gradient(model, session)
        self.assertAlmostEqual(lossy_loss / loss, 1, delta=0.02)
        self.assertGreater((lossy - plain).norm(), 0)
        self.assertLess((lossy - plain).norm() / plain.norm(), 0.2)
        rows = rows_of(session)
        self.assertEqual(set(rows), {"linear_input", "norm_input", "activation_input"})
        self.assertGreater(rows["linear_input"]["raw_bytes"], 3 * rows["linear_input"]["encoded_bytes"])
        self.assertEqual(rows["linear_input"]["raw_bytes"], 2 * ROWS * WIDTH * rows["linear_input"]["values"])

    @staticmethod
    def checkpointed(model: torch.nn.Module, reentrant: bool, session: spillway.Session | None) -> list[str]:
        x = noise(ROWS, WIDTH).requires_grad_()
        with session or contextlib.nullcontext():
            h = x * 2
            for layer in range(0, len(model), 3):
                h = torch.utils.checkpoint.checkpoint(model[layer : layer + 3], h, use_reentrant=reentrant)
            loss = h.square().mean()
            if session:
                squeeze(session)
            loss.backward()
        return bits([loss, x.grad]) + gradients(model)

    def check_checkpoints(self, reentrant: bool) -> None:
        """Their inputs are of class other, which is exact unless it was named."""
        plain = self.checkpointed(seeded(net), reentrant, None)
        for codec in (None, "other=lossless", "other=affine8"):
            with self.subTest(codec=codec):
                model = seeded(net)
                session = self.open(model, BUDGET, codec=codec, **LOSSY)
                seen = self.checkpointed(model, reentrant, session)
                self.assertEqual(seen == plain, codec != "other=affine8")
                self.assertGreater(session.report()["loaded_bytes"], 1 << 20)
                self.assertEqual(list(rows_of(session)), ["other"] if codec else [])
                session.close()

    def test_what_reentrant_checkpoints_keep_leaves_and_comes_back(self):
        self.check_checkpoints(True)

    def test_what_checkpoints_keep_leaves_and_comes_back(self):
        self.check_checkpoints(False)


if __name__ == "__main__":
    unittest.main()
