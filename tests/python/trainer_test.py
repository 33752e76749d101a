# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers through spillway.transformers.SpillwayCallback: the same losses and parameters."""

import itertools
import logging
import subprocess
import sys
import unittest

import spillway
import torch
import transformers
from same_bits import Case, bits, seeded, tokens
from spillway.transformers import SpillwayCallback

logging.getLogger("transformers").setLevel(logging.ERROR)

WORDS, LENGTH, BUDGET = 64, 128, "16MiB"


def model():
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=64, n_positions=LENGTH, vocab_size=WORDS,
                                     bos_token_id=1, eos_token_id=2)
    return seeded(lambda: transformers.GPT2LMHeadModel(config))


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        words = tokens(WORDS, LENGTH, step=index)
        return {"input_ids": words, "labels": words}


class Losses(transformers.TrainerCallback):
    """Keeps what is logged."""

    def __init__(self):
        self.seen = []

    def on_log(self, args, state, control, logs=None, **parts):
        self.seen += [logs[name] for name in ("loss", "grad_norm", "eval_loss") if name in logs]


class Failing(transformers.Trainer):
    """Raises in the second batch, after its forward."""
    count = 0

    def compute_loss(self, *arguments, **options):
        loss = super().compute_loss(*arguments, **options)
        self.count += 1
        if self.count == 2:
            raise KeyError("as asked")
        return loss


class Trainer(Case):
    def trainer(self, callback=None, kind=transformers.Trainer, net=None, **arguments):
        arguments = {"per_device_train_batch_size": 8, "max_steps": 2, "logging_steps": 1, "save_strategy": "no",
                     "disable_tqdm": True, "use_cpu": True, "report_to": [], "output_dir": self.folder + "/out",
                     "learning_rate": 0.001} | arguments
        self.losses = Losses()
        made = kind(net or model(), transformers.TrainingArguments(**arguments), train_dataset=Data(),
                    eval_dataset=Data(), callbacks=[self.losses] + ([callback] if callback else []))
        made.remove_callback(transformers.PrinterCallback)
        return made

    def run_of(self, trainer, **training):
        trainer.train(**training)
        return self.losses.seen, bits(trainer.model.parameters())

    def check_same(self, budget=BUDGET, **arguments):
        return self.check_callback(lambda *callbacks: self.run_of(self.trainer(*callbacks, **arguments)),
                                   SpillwayCallback(device_budget=budget, nvme=self.folder))

    def test_losses_and_parameters(self):
        self.check_same()

    def test_gradient_accumulation(self):
        one, four = self.check_same(), self.check_same(gradient_accumulation_steps=2)
        self.assertEqual(four["saved_tensors"], 2 * one["saved_tensors"])

    def test_evaluation_inside_a_training_is_not_recorded(self):
        one = self.check_same()
        with_evaluation = self.check_same(eval_strategy="steps", eval_steps=1, eval_on_start=True)
        self.assertEqual(with_evaluation["saved_tensors"], one["saved_tensors"])

    def test_autocast(self):
        self.check_same("14MiB", bf16=True)

    def test_a_resumed_run_ends_as_one_in_one_piece(self):
        arguments = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
        plain = self.run_of(self.trainer(**arguments))
        for first, second in itertools.product((False, True), repeat=2):
            if first or second:
                with self.subTest(first=first, second=second):
                    self.resumed(arguments, first, second, plain)

    def resumed(self, arguments, first, second, plain):
        """Two steps, and from their checkpoint the other two, each under a budget or not."""
        def callback(wanted):
            return SpillwayCallback(device_budget=BUDGET, nvme=self.folder) if wanted else None

        folder = f"{self.folder}/{first}{second}"
        before = self.trainer(callback(first), output_dir=folder, **arguments)
        before.add_callback(StopAt(2))
        losses, _ = self.run_of(before)
        after, parameters = self.run_of(self.trainer(callback(second), output_dir=folder, **arguments),
                                        resume_from_checkpoint=True)
        self.assertEqual((losses + after, parameters), plain)

    def test_an_exception_closes_the_session_and_the_trainer_trains_on(self):
        plain = self.run_of(self.trainer())
        callback = SpillwayCallback(device_budget=BUDGET, nvme=self.folder)
        failing = self.trainer(callback, Failing)
        with self.assertRaisesRegex(KeyError, "as asked"):
            failing.train()
        self.assertIsNone(callback.session)
        self.assertGreater(callback.report()["saved_tensors"], 0)
        self.assertEqual(self.run_of(self.trainer()), plain, "plain training after it")
        failing.model.load_state_dict(model().state_dict())
        transformers.set_seed(failing.args.seed)
        failing.optimizer = failing.lr_scheduler = None  # or it goes on with the old one
        self.losses.seen.clear()
        failing.train()
        self.assertEqual(bits(failing.model.parameters()), plain[1])

    def test_a_second_training_after_one_that_failed_outside_a_step(self):
        callback = SpillwayCallback(device_budget=BUDGET, nvme=self.folder)
        trainer = self.trainer(callback)
        trainer.add_callback(RaiseOnce())
        with self.assertRaisesRegex(KeyError, "between the steps"):
            trainer.train()
        first = callback.session
        trainer.train()
        self.assertIsNone(callback.session)
        with self.assertRaisesRegex(spillway.StateError, "closed"):
            first.start()
        self.assertGreater(first.report()["saved_tensors"], 0)

    def test_options_that_cannot_be_are_refused_before_the_first_step(self):
        callback = SpillwayCallback(device_budget="12 apples", nvme=self.folder)
        with self.assertRaises(spillway.OptionError) as raised:
            self.trainer(callback).train()
        self.assertNotIsInstance(raised.exception, torch.OutOfMemoryError, "a smaller batch would not help")

    def test_options_of_a_wrong_type_are_refused_before_any_training(self):
        for option, value, why in (("device_budget", 0.5, "write '50%' for a share"), ("device_budget", None, "expected bytes"),
                                   ("lossy", "yes", "expected True or False"), ("nvme", 5, "expected the path")):
            with self.assertRaisesRegex(spillway.OptionError, f"{option}: .*{why}"):
                SpillwayCallback(**{"device_budget": "1GiB", option: value})

    def test_a_callback_that_no_trainer_calls(self):
        callback = SpillwayCallback(device_budget="64MiB")
        net = model()
        with self.assertRaisesRegex(spillway.StateError, "for a Trainer of transformers"):
            callback.on_train_begin(None, None, None, model=net, optimizer=torch.optim.SGD(net.parameters()))
        self.assertIsNone(callback.session)

    def test_its_finder_of_a_batch_size_goes_on_after_out_of_memory(self):
        callback = SpillwayCallback(device_budget="14MiB")  # and no place to move to
        trainer = self.trainer(callback, auto_find_batch_size=True, per_device_train_batch_size=16)
        trainer.train()
        self.assertLess(trainer._train_batch_size, 16)


class Import(unittest.TestCase):
    def test_only_on_demand(self):
        code = "import spillway, sys; sys.exit(bool({'transformers', 'lightning', 'accelerate'} & set(sys.modules)))"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)


class StopAt(transformers.TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **parts):
        control.should_training_stop = state.global_step == self.step


class RaiseOnce(transformers.TrainerCallback):
    raised = False

    def on_step_end(self, args, state, control, **parts):
        if not self.raised:
            self.raised = True
            raise KeyError("between the steps")


if __name__ == "__main__":
    unittest.main()
