# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""torch.utils.checkpoint with a session around it, in it, and across forward and recompute."""

import functools
import unittest

import torch
from same_bits import Case, bits, gradients, noise, seeded, standard_error
from torch.utils.checkpoint import (CheckpointPolicy, checkpoint, checkpoint_sequential,
                                    create_selective_checkpoint_contexts)

WIDTH, ROWS = 128, 512


class Block(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(), torch.nn.Dropout(0.1),
                         torch.nn.Linear(2 * WIDTH, WIDTH))


def blocks(count=6):
    return torch.nn.Sequential(*[Block() for _ in range(count)])


def first(step):
    return noise(ROWS, WIDTH, step=step).requires_grad_()


def matmuls_are_saved(context, operator, *arguments, **options):
    saved = operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


class Around(Case):
    """The session is around the checkpoints."""

    def alternating(self, **options):
        def loss_of(model, step):
            hidden = first(step)
            for number, block in enumerate(model):
                hidden = block(hidden) if number % 2 else checkpoint(block, hidden, **options)
            return hidden.square().mean()
        return loss_of

    def test_both_kinds_backward_outside_and_inside(self):
        for reentrant in (False, True):
            for inside in (False, True):
                with self.subTest(reentrant=reentrant, inside=inside):
                    self.check(blocks, self.alternating(use_reentrant=reentrant), inside=inside, share=0.2)

    def test_inputs_of_checkpoints_may_leave(self):
        def loss_of(model, step):
            hidden = noise(8 * ROWS, WIDTH, step=step).requires_grad_()
            for block in model:
                hidden = checkpoint(block, hidden, use_reentrant=False)
            return hidden.square().mean()

        self.check(functools.partial(blocks, 8), loss_of, share=0.2)

    def test_selective(self):
        contexts = functools.partial(create_selective_checkpoint_contexts, matmuls_are_saved)
        self.check(blocks, self.alternating(use_reentrant=False, context_fn=contexts), share=0.15)

    def test_nested(self):
        def loss_of(model, step):
            def half(part, x):
                for block in part:
                    x = checkpoint(block, x, use_reentrant=False)
                return x

            hidden = checkpoint(half, model[:3], first(step), use_reentrant=False)
            for block in model[3:]:
                hidden = block(hidden)
            return hidden.square().mean()

        self.check(blocks, loss_of, share=0.2)

    def test_in_segments(self):
        def loss_of(model, step):
            hidden = checkpoint_sequential(model[:4], 2, first(step), use_reentrant=False)
            return model[4:](hidden).square().mean()

        self.check(blocks, loss_of, share=0.2)

    def test_early_stop_is_off(self):
        def loss_of(model, step):
            with torch.utils.checkpoint.set_checkpoint_early_stop(False):
                return self.alternating(use_reentrant=False)(model, step)

        self.check(blocks, loss_of, share=0.2)


class Inside(Case):
    """A session is opened in what is checkpointed, and where that runs again, once more."""

    def gradients_of(self, wrapped, reentrant):
        model = seeded(functools.partial(blocks, 4))
        hidden = first(0)
        torch.manual_seed(5)
        for block in model:
            hidden = checkpoint(wrapped, block, hidden, use_reentrant=reentrant)
        loss = hidden.square().mean()
        loss.backward()
        return bits([loss]) + gradients(model)

    def check_inside(self, wrapped):
        for reentrant in (False, True):
            with self.subTest(reentrant=reentrant):
                plain = self.gradients_of(lambda block, x: block(x), reentrant)
                self.assertEqual(self.gradients_of(wrapped, reentrant), plain)

    def check_moved(self):
        self.assertGreater(sum(session.report()["stored_bytes"] for session in self.sessions), 0)

    def test_a_new_session_closed_at_once(self):
        moved = []

        def wrapped(block, x):
            session = self.open(block, "2MiB")
            with session:
                out = block(x)
            moved.append(session.report()["stored_bytes"])
            session.close()
            return out

        self.check_inside(wrapped)
        self.assertGreater(sum(moved), 0)
        again = 4  # of the reentrant kind; a session takes all saves of the other, so that nothing runs again
        self.assertEqual(len(moved), 4 + 4 + again)

    def test_a_new_session_that_goes_on(self):
        def wrapped(block, x):
            with self.open(block, "3MiB"):
                return block(x)

        self.check_inside(wrapped)
        self.check_moved()
        with standard_error() as said:  # torch forgets, with a backward, what was set up in it
            for session in self.sessions:
                session.close()
        self.assertEqual(said, [])

    def test_one_session_entered_in_each(self):
        model = seeded(blocks)
        session = self.open(model, "6MiB")

        def wrapped(block, x):
            with session:
                return block(x)

        self.check_inside(wrapped)
        self.check_moved()

    def test_a_session_in_a_checkpoint_in_a_session(self):
        outer = self.open(seeded(blocks), "128MiB")

        def wrapped(block, x):
            with self.open(block, "64MiB"):
                return block(x)

        for reentrant in (False, True):
            plain = self.gradients_of(lambda block, x: block(x), reentrant)
            with outer:
                self.assertEqual(self.gradients_of(wrapped, reentrant), plain, reentrant)
            for session in self.sessions[1:]:
                session.close()
            del self.sessions[1:]


class Graphs(Case):
    """Sessions come and go while graphs of older ones live."""

    def test_a_new_session_each_step_on_one_model(self):
        plain = seeded(blocks)
        net = seeded(blocks)
        losses = []
        for model, recorded in ((plain, False), (net, True)):
            for step in range(3):
                torch.manual_seed(step)
                if recorded:
                    with self.open(model, "12MiB"):
                        losses.append(model(first(step)).square().mean())
                else:
                    losses.append(model(first(step)).square().mean())
        for loss in losses:
            loss.backward()
        self.assertEqual(bits(losses[:3]), bits(losses[3:]))
        self.assertEqual(gradients(net), gradients(plain))
        self.assertGreater(sum(session.report()["freed_bytes"] for session in self.sessions), 0)

    def test_backward_of_the_older_graph_inside_the_newer_session(self):
        def run(open_):
            net = seeded(blocks)
            torch.manual_seed(0)
            with open_(net):
                older = net(first(0)).square().mean()
            with open_(net):
                newer = net(first(1)).square().mean()
                older.backward()
            newer.backward()
            return bits([older, newer]) + gradients(net)

        plain = run(lambda net: torch.enable_grad())
        self.assertEqual(run(lambda net: self.open(net, "10MiB")), plain)

    def test_a_graph_outlives_its_closed_session(self):
        def run(session):
            net = seeded(blocks)
            torch.manual_seed(0)
            opened = session(net)
            with opened:
                loss = net(first(0)).square().mean()
            if isinstance(opened, torch.enable_grad):
                loss.backward(retain_graph=True)
            else:
                self.assertGreater(opened.report()["stored_bytes"], 0)
                opened.close()
                del opened
                self.sessions.clear()
                loss.backward(retain_graph=True)
            loss.backward()
            return gradients(net)

        self.assertEqual(run(lambda net: self.open(net, "6MiB")), run(lambda net: torch.enable_grad()))


if __name__ == "__main__":
    unittest.main()
