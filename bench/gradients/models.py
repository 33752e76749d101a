# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The models of bench-gradients: as their libraries make them, small, with random weights."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

WORDS, KINDS = 1024, 10


class Subject(NamedTuple):
    """A model, and what one step of it reads: random numbers of a seed."""
    make: Callable[[], torch.nn.Module]
    data: Callable[[int], Any]
    loss: Callable[[torch.nn.Module, Any], torch.Tensor]


def text(rows: int, length: int) -> Callable[[int], torch.Tensor]:
    return lambda seed: torch.randint(WORDS, (rows, length), generator=torch.Generator().manual_seed(seed))


def next_word(model: torch.nn.Module, words: torch.Tensor) -> torch.Tensor:
    return model(input_ids=words, labels=words).loss


def gpt2(quick: bool) -> Subject:
    """GELU as torch has it, with the tanh: the same function as GPT-2's own, which transformers writes out in
    Python, so that what it saves is of class `other`."""
    import transformers  # noqa: PLC0415 - a model needs its own library alone

    width, layers, length = (64, 2, 64) if quick else (256, 6, 256)
    config = transformers.GPT2Config(
        vocab_size=WORDS, bos_token_id=1, eos_token_id=2, n_embd=width, n_layer=layers, n_head=4, n_positions=length,
        activation_function="gelu_pytorch_tanh")
    return Subject(lambda: transformers.GPT2LMHeadModel(config), text(8, length), next_word)


def llama(quick: bool) -> Subject:
    import transformers  # noqa: PLC0415

    width, layers, length = (64, 2, 64) if quick else (256, 6, 256)
    config = transformers.LlamaConfig(
        vocab_size=WORDS, bos_token_id=1, eos_token_id=2, hidden_size=width, intermediate_size=3 * width,
        num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=length)
    return Subject(lambda: transformers.LlamaForCausalLM(config), text(8, length), next_word)


def resnet18(quick: bool) -> Subject:
    import torchvision  # noqa: PLC0415

    rows = 8 if quick else 32

    def data(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(rows, 3, 64, 64, generator=generator), torch.randint(KINDS, (rows,), generator=generator)

    def loss(model: torch.nn.Module, given: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(given[0]), given[1])

    return Subject(lambda: torchvision.models.resnet18(num_classes=KINDS), data, loss)


MODELS = {"gpt2": gpt2, "llama": llama, "resnet18": resnet18}
