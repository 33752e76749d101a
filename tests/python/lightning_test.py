# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Lightning through spillway.lightning.SpillwayCallback: the same losses and parameters."""

import importlib
import logging
import sys
import unittest
import warnings

import lightning.pytorch as pl
import spillway.lightning
import torch
from same_bits import Case, bits, noise, seeded
from spillway.lightning import SpillwayCallback

WIDTH, BUDGET = 128, "6MiB"


class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = seeded(lambda: torch.nn.Sequential(
            *[layer for _ in range(5) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(),
                                                    torch.nn.Dropout(0.1))]))
        self.losses = []

    def training_step(self, batch, number):
        loss = (self.net(batch) - batch).square().mean()
        self.losses += bits([loss])
        return loss

    def validation_step(self, batch, number):
        self.losses += bits([self.net(batch).square().mean()])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Manual(Module):
    """Two optimizers in turn, each with its own backward, as a GAN has."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self):
        first, second = self.net[:6].parameters(), self.net[6:].parameters()
        return [torch.optim.Adam(first, lr=0.01), torch.optim.SGD(second, lr=0.1)]

    def training_step(self, batch, number):
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            loss = super().training_step(batch, number)
            self.manual_backward(loss)
            optimizer.step()


class Skipping(Module):
    def on_train_batch_start(self, batch, number):
        return -1 if number == 1 else None


class Failing(Module):
    def training_step(self, batch, number):
        if number == 1:
            raise KeyError("as asked")
        return super().training_step(batch, number)


def data(steps=4):
    return torch.utils.data.DataLoader([noise(WIDTH, step=row) for row in range(steps * 1024)], batch_size=1024)


class Lightning(Case):
    def setUp(self):
        super().setUp()
        for name in ("lightning.pytorch", "pytorch_lightning"):
            logging.getLogger(name + ".utilities.rank_zero").setLevel(logging.ERROR)
        warnings.simplefilter("ignore")

    def trainer(self, callback=None, library=pl, **options):
        options = {"max_epochs": 1, "limit_val_batches": 0, "precision": "32-true"} | options
        return library.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                               enable_progress_bar=False, enable_model_summary=False,
                               default_root_dir=self.folder, callbacks=[callback] if callback else [], **options)

    def fitted(self, module, callback=None, **options):
        torch.manual_seed(3)
        self.trainer(callback, **options).fit(module, data(2), data(1))
        return module.losses, bits(module.parameters())

    def check_same(self, kind=Module, budget=BUDGET, **options):
        return self.check_callback(lambda *callbacks: self.fitted(kind(), *callbacks, **options),
                                   SpillwayCallback(device_budget=budget, nvme=self.folder))

    def test_losses_and_parameters(self):
        self.check_same()

    def test_gradient_accumulation_and_clipping(self):
        self.check_same(accumulate_grad_batches=2, gradient_clip_val=0.5, max_epochs=2)

    def test_validation_inside_a_training_is_not_recorded(self):
        one = self.check_same(max_epochs=2)
        with_validation = self.check_same(max_epochs=2, limit_val_batches=1, val_check_interval=1)
        self.assertEqual(with_validation["saved_tensors"], one["saved_tensors"])

    def test_manual_optimization_with_two_optimizers(self):
        self.check_same(Manual)

    def test_autocast(self):
        self.check_same(precision="bf16-mixed", budget="5MiB")

    def test_a_batch_that_is_skipped(self):
        self.check_same(Skipping, limit_val_batches=1)

    def test_an_exception_closes_the_session(self):
        plain = self.fitted(Module())
        callback = SpillwayCallback(device_budget=BUDGET, nvme=self.folder)
        with self.assertRaisesRegex(KeyError, "as asked"):
            self.fitted(Failing(), callback)
        self.assertIsNone(callback.session)
        self.assertGreater(callback.report()["saved_tensors"], 0)
        self.assertEqual(self.fitted(Module()), plain, "plain training after it")
        self.assertEqual(self.fitted(Module(), callback), plain, "and with the same callback")

    def test_the_older_name_of_the_package(self):
        import pytorch_lightning  # noqa: PLC0415
        self.assertIs(SpillwayCallback.__mro__[2], pl.Callback)
        older = importlib.reload(spillway.lightning).SpillwayCallback
        self.addCleanup(importlib.reload, spillway.lightning)
        self.addCleanup(sys.modules.pop, "pytorch_lightning")
        self.assertIs(older.__mro__[2], pytorch_lightning.Callback)
        kind = type("Older", (pytorch_lightning.LightningModule,), dict(vars(Module)))
        kind.__init__ = lambda module: older_init(module, kind)
        plain = self.fitted(kind(), library=pytorch_lightning)
        callback = older(device_budget=BUDGET, nvme=self.folder)
        self.assertEqual(self.fitted(kind(), callback, library=pytorch_lightning), plain)
        self.assertGreater(callback.report()["stored_bytes"], 1 << 20)


def older_init(module, kind):
    super(kind, module).__init__()
    module.net, module.losses = Module().net, []


if __name__ == "__main__":
    unittest.main()
