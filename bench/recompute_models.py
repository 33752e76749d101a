# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""One model of bench-recompute in a process of its own; prints one JSON line.

The models are as their libraries make them: random weights and data, nothing downloaded. Sizes are such that autograd saves
as many bytes as where these models were first measured (recompute.py's FIRST), within 6 %: width 256, four lines of 256
words, three to six layers, or images. Only llama-sdpa-bf16amp is smaller, two layers for six, since products in bf16 take
seconds on CPUs without instructions for them.

A step is a forward and a backward from the same weights, buffers, batch and random state each time, so its loss, gradients,
buffers and the random state after it have plain's bits. A peak is what the step takes beyond weights and buffers. The
largest is that of a session that drops nothing ("held"). The smallest is searched by halving: the least budget in which
steps of a session end that can only make tensors again. Each round runs all sides once, in an order of its own.
"""

import argparse
import contextlib
import hashlib
import random
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import common
import spillway
import torch
from sides import Run, Side, cpu_seconds, is_enough, measure_model, plain_over_plain
from torch.nn import functional

Loss = Callable[[], torch.Tensor]
Model = tuple[torch.nn.Module, Loss]


class Size(NamedTuple):
    vocabulary: int
    width: int
    lines: int
    length: int  # of a line, in words
    is_quick: bool

    def layers(self, count: int) -> int:
        return 2 if self.is_quick else count

    @property
    def common(self) -> dict[str, Any]:
        return {"vocab_size": self.vocabulary, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


FULL, QUICK = Size(2000, 256, 4, 256, False), Size(256, 64, 4, 128, True)
HEADS, DROPOUT, KINDS = 8, 0.1, 100


def next_word(model: torch.nn.Module, size: Size) -> Loss:
    text = torch.randint(3, size.vocabulary, (size.lines, size.length))
    return lambda: model(input_ids=text, labels=text).loss


def gpt2(attention: str = "sdpa", dropout: float = DROPOUT, is_checkpointed: bool = False) -> Callable[[Size], Model]:
    def make(size: Size) -> Model:
        import transformers  # noqa: PLC0415 - a model needs its own library alone

        config = transformers.GPT2Config(
            n_layer=size.layers(6), n_head=HEADS, n_embd=size.width, n_positions=size.length, resid_pdrop=dropout,
            embd_pdrop=dropout, attn_pdrop=dropout, use_cache=False, **size.common)
        model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation=attention).train()
        if is_checkpointed:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model, next_word(model, size)

    return make


def llama_model(size: Size, layers: int, attention: str = "sdpa", dropout: float = 0.0) -> torch.nn.Module:
    import transformers  # noqa: PLC0415

    config = transformers.LlamaConfig(
        hidden_size=size.width, intermediate_size=688, num_hidden_layers=size.layers(layers), num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2, max_position_embeddings=size.length, attention_dropout=dropout, use_cache=False,
        **size.common)
    return transformers.LlamaForCausalLM._from_config(config, attn_implementation=attention).train()


def llama(attention: str = "sdpa", dropout: float = 0.0) -> Callable[[Size], Model]:
    def make(size: Size) -> Model:
        model = llama_model(size, 6, attention, dropout)
        return model, next_word(model, size)

    return make


def llama_autocast(size: Size) -> Model:
    model = llama_model(size, 2)
    loss = next_word(model, size)

    def in_bf16() -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss()

    return model, in_bf16


def llama_lora(size: Size) -> Model:
    import peft  # noqa: PLC0415

    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    lora = peft.LoraConfig(r=8, lora_alpha=16, lora_dropout=DROPOUT, target_modules=targets)
    model = peft.get_peft_model(llama_model(size, 6), lora).train()
    return model, next_word(model, size)


def bert(size: Size) -> Model:
    import transformers  # noqa: PLC0415

    config = transformers.BertConfig(
        hidden_size=size.width, intermediate_size=4 * size.width, num_hidden_layers=size.layers(6),
        num_attention_heads=HEADS, max_position_embeddings=size.length, **size.common)
    model = transformers.BertForMaskedLM._from_config(config, attn_implementation="sdpa").train()
    return model, next_word(model, size)


def t5(size: Size) -> Model:
    import transformers  # noqa: PLC0415

    config = transformers.T5Config(
        vocab_size=size.vocabulary, d_model=size.width, d_kv=size.width // HEADS, d_ff=4 * size.width,
        num_layers=size.layers(2), num_decoder_layers=size.layers(2), num_heads=HEADS, dropout_rate=DROPOUT,
        decoder_start_token_id=0, use_cache=False)
    model = transformers.T5ForConditionalGeneration(config).train()
    return model, next_word(model, size)


def mixtral(size: Size) -> Model:
    import transformers  # noqa: PLC0415

    config = transformers.MixtralConfig(
        hidden_size=size.width, intermediate_size=2 * size.width, num_hidden_layers=size.layers(3),
        num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, num_local_experts=4, num_experts_per_tok=2,
        max_position_embeddings=size.length, use_cache=False, **size.common)
    model = transformers.MixtralForCausalLM._from_config(config, attn_implementation="sdpa").train()
    return model, next_word(model, size)


def sorts(model: torch.nn.Module, images: int, side: int) -> Model:
    """Images into KINDS."""
    model.train()
    batch, kinds = torch.randn(images, 3, side, side), torch.randint(KINDS, (images,))
    return model, lambda: functional.cross_entropy(model(batch), kinds)


def vit(size: Size) -> Model:
    import torchvision  # noqa: PLC0415

    side, patch = 60, 4
    return sorts(torchvision.models.VisionTransformer(
        side, patch, size.layers(6), HEADS, size.width, 4 * size.width, dropout=DROPOUT, attention_dropout=DROPOUT,
        num_classes=KINDS), size.lines, side)


def vision(name: str, images: int, side: int) -> Callable[[Size], Model]:
    def make(size: Size) -> Model:
        import torchvision  # noqa: PLC0415

        model = getattr(torchvision.models, name)(num_classes=KINDS)
        # Smaller, what can leave is less than the scratch memory that convolutions take on some processors.
        return sorts(model, *(2, 128) if size.is_quick else (images, side))

    return make


MODELS: dict[str, Callable[[Size], Model]] = {
    "gpt2-sdpa-drop": gpt2(),
    "gpt2-eager-drop": gpt2("eager"),
    "gpt2-ckpt": gpt2(is_checkpointed=True),
    "llama-sdpa": llama(),
    "llama-eager-drop": llama("eager", DROPOUT),
    "llama-sdpa-bf16amp": llama_autocast,
    "llama-lora-drop": llama_lora,
    "bert-drop": bert,
    "t5-drop": t5,
    "mixtral": mixtral,
    "vit-drop": vit,
    "convnext_tiny": vision("convnext_tiny", 8, 96),
    "gpt2-sdpa-nodrop": gpt2(dropout=0.0),
    "resnet18": vision("resnet18", 16, 128),
}

UNLIMITED = "1TiB"
HELD_STEPS = 2  # first gradients, then the usual step
PROBED_STEPS = 3  # a session knows from the first what the second saves
SEARCH_SHARE = 0.01  # of the largest peak: how finely the smallest is searched
COUNTED = ("recomputed_bytes", "recomputed_operators", "recompute_ns", "saved_bytes", "stored_bytes")



class Bits(NamedTuple):
    """All of them."""
    loss: str
    gradients: str
    buffers: str
    random_state: str


class Training:
    def __init__(self, make: Callable[[Size], Model], size: Size) -> None:
        torch.manual_seed(0)
        self.model, self.loss = make(size)
        self.buffers = [buffer.clone() for buffer in self.model.buffers()]

    def step(self, session: spillway.Session | None = None) -> tuple[Run, Bits]:
        self.begin()
        cpu, begin = cpu_seconds(), time.perf_counter()
        with session or contextlib.nullcontext():
            loss = self.loss()
        loss.backward()
        run = {"step_s": time.perf_counter() - begin, "cpu_s": cpu_seconds() - cpu}
        gradients = (parameter.grad for parameter in self.model.parameters() if parameter.grad is not None)
        return run, Bits(loss.item().hex(), digest(gradients), digest(self.model.buffers()),
                         digest([torch.get_rng_state()]))

    @torch.no_grad()
    def begin(self) -> None:
        """The same step again."""
        self.model.zero_grad()
        for buffer, at_first in zip(self.model.buffers(), self.buffers, strict=True):
            buffer.copy_(at_first)
        torch.manual_seed(1)  # dropout, stochastic depth


def digest(tensors: Iterable[torch.Tensor]) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    return found.hexdigest()


def counted(report: Mapping[str, Any]) -> dict[str, int]:
    return {name: report[name] for name in COUNTED}


def side_of(training: Training, session: spillway.Session | None = None) -> Side:
    return Side(training, session, counted)


def opened(training: Training, budget: int | str, recompute: str = "auto") -> spillway.Session:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", spillway.SpillwayWarning)  # nowhere to move: as it is meant to be
        return spillway.session(training.model, device_budget=budget, recompute=recompute)


class Search:
    """For the smallest budget in which steps end. Everything in bytes, with weights and buffers."""

    def __init__(self, training: Training, name: str) -> None:
        self.training, self.name = training, name
        self.bits: set[Bits] = set()

    def ends(self, budget: int) -> bool:
        self.training.begin()  # no gradients
        try:
            with contextlib.closing(opened(self.training, budget)) as session:
                for _ in range(PROBED_STEPS):
                    self.bits.add(self.training.step(session)[1])
        except (torch.OutOfMemoryError, spillway.BudgetError) as error:
            common.progress(f"{self.name}: {budget} bytes are too few: {str(error).splitlines()[0].split(';')[0]}")
            return False
        common.progress(f"{self.name}: {budget} bytes suffice")
        return True

    def smallest(self, base: int, peak: int) -> int:
        least, most = base, peak
        while most - least > SEARCH_SHARE * (peak - base):
            middle = (least + most) // 2
            least, most = (least, middle) if self.ends(middle) else (middle, most)
        return most


def warm(training: Training, budget: int) -> Side | None:
    """After the steps in which a session learns; None: the budget is too small."""
    training.begin()
    side = side_of(training, opened(training, budget))
    try:
        for _ in range(PROBED_STEPS):
            side.run()
    except torch.OutOfMemoryError:
        side.session.close()
        return None
    return side


def sides_of(training: Training, options: argparse.Namespace) -> tuple[dict[str, Side], dict[str, Any]]:
    """All, warm, and what the budgets are."""
    training.begin()
    held = opened(training, UNLIMITED, recompute="off")
    base = held.report()["device_bytes"]
    sides = {"plain": side_of(training), "plain again": side_of(training), "held": side_of(training, held)}
    for name in ("plain", *["held"] * HELD_STEPS):
        sides[name].run()
    report = held.report()
    peak = report["device_peak_bytes"]
    search = Search(training, options.model)
    smallest = search.smallest(base, peak)
    while (side := warm(training, smallest)) is None:  # plain's peak itself, or a session that chose otherwise
        smallest += int(SEARCH_SHARE * (peak - base))
    sides["smallest"], budgets = side, {"smallest": smallest}
    at_share = int(base + options.share * (peak - base))
    if (side := warm(training, at_share)) is not None:
        sides["at_share"], budgets["at_share"] = side, at_share
    plain = side_of(training).run()[1]
    return sides, {
        "base_bytes": base, "peak_bytes": peak, "budget_bytes": budgets, "share_bytes": at_share,
        "saved_bytes": report["saved_bytes"] // HELD_STEPS, "bits_equal": {"search": search.bits <= {plain}}}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    training = Training(MODELS[options.model], QUICK if options.quick else FULL)
    sides, found = sides_of(training, options)
    shuffled, begin = random.Random(0), time.monotonic()
    rounds: list[dict[str, Run]] = []
    every_bits: dict[str, set[Bits]] = {name: set() for name in sides}
    while not is_enough(options, rounds, begin, "cpu_s"):
        done: dict[str, Run] = {}
        for name in shuffled.sample(list(sides), len(sides)):
            done[name], bits = sides[name].run()
            every_bits[name].add(bits)
        rounds.append(done)
        steps = ", ".join(f"{name} {run['cpu_s']:.3f} s" for name, run in done.items())
        common.progress(f"{options.model}, round {len(rounds)}: {steps}")
    found["bits_equal"] |= {name: bits == every_bits["plain"] and len(bits) == 1 for name, bits in every_bits.items()}
    return found | {"rounds": rounds, "plain_over_plain": plain_over_plain(rounds, "cpu_s")}


if __name__ == "__main__":
    measure_model(__doc__, MODELS, {
        "--share": {"type": float, "required": True, "help": "of the largest peak: a second budget"},
    }, measure)
