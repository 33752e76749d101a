# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""`spillway trace --model` beside a recorded step of the same model: the bytes that autograd saves.

Fewer layers than the models have, a small batch, no dropout. Fused operators, since those are what the made traces have.
"""

import json
import logging
import os
import pathlib
import subprocess
import tempfile
import unittest
from collections.abc import Callable
from typing import Any

import spillway
import torch
import torchvision
import transformers

logging.getLogger("transformers").setLevel(logging.ERROR)

PROGRAM = pathlib.Path(os.environ["SPILLWAY_BINARY_DIR"], "bin", "spillway")
BATCH, TOKENS = 2, 64
CLOSE = 0.02  # of the bytes
Trace = dict[str, Any]


def made(model: str, *flags: str) -> Trace:
    command = [PROGRAM, "trace", "--model", model, "--batch", str(BATCH), "--machine", "h100", *flags]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def small_numbers(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """The model without the time that its random weights take."""
    with torch.device("meta"):
        model = make()
    model.to_empty(device="cpu")
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data.fill_(1e-3 if tensor.is_floating_point() else 0)
    return model


def recorded(model: torch.nn.Module, loss_of: Callable[[torch.nn.Module], torch.Tensor]) -> Trace:
    """What a session records of the third step: the first tells which parameters there are."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "step.json")
        with spillway.session(model, device_budget="1TiB", host_budget="1MiB") as session:
            session.trace(file)
            for _ in range(3):
                model.zero_grad()
                loss_of(model).backward()
                session.step()
        return json.loads(file.read_text())


def saved_bytes(trace: Trace, path: str = "") -> int:
    """Of the values that modules below `path` save."""
    return sum(value["size_bytes"] for value in trace["values"] if path in value.get("module", "") + ".")


def next_word(model: torch.nn.Module) -> torch.Tensor:
    words = torch.arange(3, 3 + BATCH * TOKENS).reshape(BATCH, TOKENS)
    kwargs = {} if isinstance(model, transformers.BertForMaskedLM) else {"use_cache": False}
    return model(input_ids=words, labels=words, **kwargs).loss


class ModelTraces(unittest.TestCase):
    def check(self, there: Trace, here: Trace, layer: str = "") -> None:
        for path in ("", *([layer] if layer else [])):
            ratio = saved_bytes(there, path) / saved_bytes(here, path)
            self.assertLess(abs(ratio - 1), CLOSE, f"{here['name']} {path}: {saved_bytes(there, path)} bytes recorded")

    def transformer(self, model: str, layer: str, make: Callable[[], torch.nn.Module]) -> None:
        flags = ("--sequence", str(TOKENS), "--layers", "2", "--dropout", "0")
        self.check(recorded(small_numbers(make), next_word), made(model, *flags), layer)

    def test_bert(self):
        config = transformers.BertConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=2, num_attention_heads=16,
                                         hidden_dropout_prob=0, attention_probs_dropout_prob=0)
        self.transformer("bert-large", "layer.1.", lambda: transformers.BertForMaskedLM(config))

    def test_gpt2(self):
        config = transformers.GPT2Config(n_layer=2, n_head=16, n_embd=1024, activation_function="gelu_pytorch_tanh",
                                         resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        self.transformer("gpt2-345m", "h.1.", lambda: transformers.GPT2LMHeadModel(config))

    def pictures(self, name: str, **how: Any) -> None:
        pictures, kinds = torch.ones(BATCH, 3, 224, 224), torch.arange(BATCH)
        model = small_numbers(lambda: getattr(torchvision.models, name)(**how))
        there = recorded(model, lambda model: torch.nn.functional.cross_entropy(model(pictures), kinds))
        self.check(there, made(name, "--dropout", "0"))  # which layer a ReLU in place belongs to is told otherwise

    def test_resnet50(self):
        self.pictures("resnet50")

    @unittest.skipIf(os.environ.get("SPILLWAY_TESTS") == "quick", "make test-all runs it")
    def test_vgg16(self):
        self.pictures("vgg16", dropout=0)


if __name__ == "__main__":
    unittest.main()
