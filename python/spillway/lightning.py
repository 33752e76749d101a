# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Trains with Lightning under a budget:

    trainer = Trainer(callbacks=[SpillwayCallback(device_budget="16GiB", nvme="/scratch")])
    trainer.fit(module, data)
"""

import sys
from typing import TYPE_CHECKING, Any

from ._callback import Training

if TYPE_CHECKING or "pytorch_lightning" not in sys.modules:
    import lightning.pytorch as pl
else:  # the same under its older name; a trainer wants callbacks of its own
    import pytorch_lightning as pl


class SpillwayCallback(Training, pl.Callback):
    """Runs each training batch, with its backward and the optimizer's step, in a session; validation is not in it.

    It takes the options of `spillway.session`.
    """

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._open(pl_module, trainer.optimizers)
        self._steps = trainer.global_step

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self.session is not None:
            self._at_end.enter_context(self.session)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._at_end.close()
        if self.session is not None and trainer.global_step != self._steps:
            self.session.step()
            self._steps = trainer.global_step

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._at_end.close()  # a batch that was skipped has no end

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._close()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        self._close()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._close()
