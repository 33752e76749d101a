# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of README, the tutorial and of the how-to pages run, in their order, and show what the pages promise."""

import contextlib
import io
import os
import pathlib
import re
import unittest

import lightning.pytorch as pl
import spillway
import torch
import transformers
from same_bits import Case

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def blocks(page):
    """All of them as one script; each line keeps its number, so that an error names the page's line."""
    text = (DOCS / page).read_text()
    code, end = "", 0
    for found in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        code += "\n" * text.count("\n", end, found.start(1)) + found.group(1)
        end = found.end(1)
    return compile(code.replace('"/scratch"', '"."'), page, "exec")


class Numbers(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(64, 64)

    def training_step(self, batch, _):
        return self.model(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Pages(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, pathlib.Path.cwd())
        os.chdir(self.folder)

    def output_of(self, page, names):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(blocks(page), names)
        return shown.getvalue()

    def model(self):
        model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6)))
        return {"spillway": spillway, "torch": torch, "model": model, "batch": torch.randn(2048, 512),
                "optimizer": torch.optim.AdamW(model.parameters())}

    def test_readme(self):
        text = self.output_of("../README.md", {})
        self.assertRegex(text, r"device +allocated at most +[\d.]+ MiB +of 100.0 MiB")
        self.assertRegex(text, r"the smallest budget is [\d.]+ MiB\n")
        self.assertRegex(text, r"note: an optimizer's state is not in these sizes; add it .*Adam's first step makes [\d.]+ MiB")
        self.assertRegex(text, r"(?m)^rotor +[\d.]+, ")

    def test_tutorial(self):
        names = {}
        text = self.output_of("tutorial.md", names)
        self.assertRegex(text, r"peak \d+ MiB, smallest budget \d+ MiB\n")
        self.assertRegex(text, r"moved +stored on NVMe +[1-9]")
        self.assertIn("at least", text)  # the last block's error
        self.assertEqual(names["losses"], names["plain_losses"])
        self.assertTrue(pathlib.Path("run.json").is_file())

    def test_choose_a_budget(self):
        names = self.model()
        self.output_of("how_to/choose_a_budget.md", names)
        self.addCleanup(names["session"].close)
        self.assertLess(names["report"]["device_needed_bytes"], names["budget"])
        self.assertLess(names["budget"], names["report"]["device_peak_bytes"])
        session = names["session"]
        for _ in range(2):  # with the optimizer's state, which the session sees in the first step
            with session:
                loss = names["model"](names["batch"]).square().mean()
            loss.backward()
            names["optimizer"].step()
            names["optimizer"].zero_grad()
        self.assertGreater(session.report()["stored_bytes"], 0)

    def test_choose_a_policy(self):
        names = self.model()
        text = self.output_of("how_to/choose_a_policy.md", names)
        planning = {policy.name for policy in spillway.policies() if policy.plans}
        self.assertEqual({row["policy"] for row in names["table"].rows}, {"online", "delta", "qpo"} | planning)
        self.assertRegex(text, r"measured here\nonline +[\d.]+ MiB +[\d.]+ s \(foretold [\d.]+ s\)")

    def with_a_session(self, page):
        names = self.model()
        session = spillway.session(names["model"], device_budget="44MiB", nvme=".")
        self.addCleanup(session.close)
        with session:
            loss = names["model"](names["batch"]).square().mean()
        loss.backward()
        return self.output_of(page, names | {"session": session})

    def test_find_out_why_it_is_slow(self):
        text = self.with_a_session("how_to/find_out_why_it_is_slow.md")
        self.assertRegex(text, r"[\d.]+ GB at [\d.]+ GB/s")

    def test_see_where_memory_went(self):
        self.assertIn("'backward'", self.with_a_session("how_to/see_where_memory_went.md"))

    def test_trainer(self):
        config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=1,
                                         bos_token_id=0, eos_token_id=0)
        arguments = transformers.TrainingArguments("out", max_steps=1, use_cpu=True, save_strategy="no", report_to=[],
                                                   disable_tqdm=True)
        words = torch.arange(16)
        text = self.output_of("how_to/trainer.md", {
            "Trainer": transformers.Trainer, "model": transformers.GPT2LMHeadModel(config), "arguments": arguments,
            "data": [{"input_ids": words, "labels": words}] * 8})
        self.assertIn("allocated at most", text)

    def test_lightning(self):
        data = torch.utils.data.DataLoader(torch.randn(8, 64), batch_size=4)
        text = self.output_of("how_to/lightning.md", {"module": Numbers(), "data": data})
        self.assertIn("allocated at most", text)

    def test_every_other_page_is_python(self):
        for page in sorted(DOCS.rglob("*.md")):
            blocks(page.relative_to(DOCS))


if __name__ == "__main__":
    unittest.main()
