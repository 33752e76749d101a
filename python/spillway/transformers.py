# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Trains with the Trainer of transformers under a budget:

    trainer = Trainer(model, arguments, train_dataset=data,
                      callbacks=[SpillwayCallback(device_budget="16GiB", nvme="/scratch")])
    trainer.train()
"""

import inspect
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ._callback import Training
from .errors import StateError


class SpillwayCallback(Training, TrainerCallback):
    """Runs each forward and backward of a training in a session; evaluation is not in it.

    It takes the options of `spillway.session`. The Trainer has no event for a training that fails, so the
    callback wraps its `training_step` during training: an exception there leaves and closes the session.
    """

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        trainer = _calling_trainer()
        session = self._open(parts["model"], [parts["optimizer"]])
        plain_step = trainer.training_step

        def training_step(*batch: Any, **options: Any) -> Any:
            try:
                with session:
                    return plain_step(*batch, **options)
            except BaseException:
                self._close()
                raise

        setattr(trainer, "training_step", training_step)
        self._at_end.callback(setattr, trainer, "training_step", plain_step)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        if self.session is not None:
            self.session.step()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        self._close()


def _calling_trainer() -> Trainer:
    """Events do not name their trainer, but it is on the stack."""
    frame = inspect.currentframe()
    while frame is not None:
        if isinstance(trainer := frame.f_locals.get("self"), Trainer):
            return trainer
        frame = frame.f_back
    raise StateError("SpillwayCallback is for a Trainer of transformers, and none has called it")
