# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers, as they are: random weights, small sizes, the same bits as plain training."""

import logging
import unittest

import transformers
from same_bits import Case, noise, tokens

logging.getLogger("transformers").setLevel(logging.ERROR)

WORDS, WIDTH = 256, 64
COMMON = {"vocab_size": WORDS, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LLAMA = COMMON | {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_hidden_layers": 3,
                  "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}


def next_word(model, step):
    """The loss of a decoder; padding at the end of one row."""
    words = tokens(WORDS, 8, 128, step=step)
    mask = words.new_ones(words.shape)
    mask[0, 100:] = 0
    return model(input_ids=words, attention_mask=mask, labels=words).loss


def gpt2(attention):
    config = transformers.GPT2Config(n_layer=3, n_head=4, n_embd=WIDTH, n_positions=128, **COMMON)
    return lambda: transformers.GPT2LMHeadModel._from_config(config, attn_implementation=attention)


def llama(attention):
    config = transformers.LlamaConfig(**LLAMA)
    return lambda: transformers.LlamaForCausalLM._from_config(config, attn_implementation=attention)


def mixtral(attention):
    config = transformers.MixtralConfig(num_local_experts=4, num_experts_per_tok=2, output_router_logits=True,
                                        router_aux_loss_coef=0.02, **LLAMA)
    return lambda: transformers.MixtralForCausalLM._from_config(config, attn_implementation=attention)


def bert(attention):
    config = transformers.BertConfig(hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=3,
                                     num_attention_heads=4, max_position_embeddings=128, vocab_size=WORDS)
    return lambda: transformers.BertForMaskedLM._from_config(config, attn_implementation=attention)


def t5():
    config = transformers.T5Config(vocab_size=WORDS, d_model=WIDTH, d_kv=16, d_ff=4 * WIDTH, num_layers=2,
                                   num_decoder_layers=2, num_heads=4, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


class Transformers(Case):
    def both_attentions(self, make, loss_of=next_word):
        for attention in ("eager", "sdpa"):
            with self.subTest(attention):
                self.check(make(attention), loss_of)

    def test_gpt2(self):
        self.both_attentions(gpt2)

    def test_llama_with_grouped_heads(self):
        self.both_attentions(llama)

    def test_bert(self):
        self.both_attentions(bert)

    def test_mixture_of_experts(self):
        self.both_attentions(mixtral)

    def test_t5_encoder_and_decoder(self):
        def loss_of(model, step):
            answer = tokens(WORDS, 8, 64, step=step + 9)
            return model(input_ids=tokens(WORDS, 8, 128, step=step), labels=answer).loss

        self.check(t5, loss_of)

    def test_its_own_gradient_checkpointing(self):
        for reentrant in (False, True):
            with self.subTest(reentrant=reentrant):
                def make(reentrant=reentrant):
                    model = gpt2("sdpa")()
                    model.activation_checkpointing_enable({"use_reentrant": reentrant})
                    return model.train()

                self.check(make, next_word, share=0.15, inside=True)

    def test_lengths_that_change_from_step_to_step(self):
        def loss_of(model, step):
            words = tokens(WORDS, 8 - 2 * step, (128, 96, 112)[step], step=step)
            return model(input_ids=words, labels=words).loss

        self.check(gpt2("sdpa"), loss_of, steps=3)

    def test_embeddings_as_input_get_their_gradient(self):
        words = tokens(WORDS, 8, 128)
        given = noise(8, 128, WIDTH).requires_grad_()
        seen = []

        def loss_of(model, step):
            if given.grad is not None:
                seen.append(given.grad.sum().item())
                given.grad = None
            return model(inputs_embeds=given, labels=words).loss

        self.check(llama("sdpa"), loss_of)
        self.assertEqual(len(set(seen)), 2, "of the last step of a training and of its first")


if __name__ == "__main__":
    unittest.main()
