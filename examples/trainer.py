# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers under a budget of device memory:

    python examples/trainer.py --device-budget 36MiB --nvme build

It fine-tunes a tiny GPT-2 with random weights, so that nothing is downloaded: to count upwards. Needs
transformers and accelerate.
"""

import argparse
import tempfile

import torch
from spillway.transformers import SpillwayCallback
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

WORDS, LENGTH = 256, 128


class Counting(torch.utils.data.Dataset):
    """Rows that count upwards from anywhere."""

    def __len__(self) -> int:
        return 1024

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        words = (7 * row + torch.arange(LENGTH)) % WORDS
        return {"input_ids": words, "labels": words}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device-budget", help="bytes of device memory: 36MiB, 16GiB, 80%%; absent: train plainly")
    parser.add_argument("--nvme", help="a folder on a disk, for what does not fit")
    parser.add_argument("--steps", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--accumulate", type=int, default=1, help="batches a step (default: %(default)s)")
    parser.add_argument("--cpu", action="store_true", help="also where there is a GPU")
    return parser.parse_args()


def train(chosen: argparse.Namespace, callbacks: list[SpillwayCallback], folder: str) -> None:
    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=128, n_layer=4, n_head=4,
                                       bos_token_id=0, eos_token_id=0))
    arguments = TrainingArguments(folder, max_steps=chosen.steps, per_device_train_batch_size=8, learning_rate=1e-3,
                                  gradient_accumulation_steps=chosen.accumulate, use_cpu=chosen.cpu,
                                  logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True)
    Trainer(model, arguments, train_dataset=Counting(), callbacks=callbacks).train()


def main() -> None:
    chosen = options()
    callbacks = []
    if chosen.device_budget:
        callbacks = [SpillwayCallback(device_budget=chosen.device_budget, nvme=chosen.nvme)]
    with tempfile.TemporaryDirectory() as folder:
        train(chosen, callbacks, folder)
    for callback in callbacks:
        print(callback.report())


if __name__ == "__main__":
    main()
