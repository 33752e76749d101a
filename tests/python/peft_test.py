# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""LoRA by peft on models of transformers: a frozen base, small weights that learn, the same bits."""

import logging
import unittest

import peft
from same_bits import Case
from transformers_test import gpt2, llama, next_word

logging.getLogger("transformers").setLevel(logging.ERROR)


def adapted(base, targets, **options):
    config = peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=targets, task_type="CAUSAL_LM",
                             **options)
    return lambda: peft.get_peft_model(base(), config)


class Lora(Case):
    def check_adapted(self, make, **options):
        trained = {name for name, parameter in make().named_parameters() if parameter.requires_grad}
        self.assertTrue(trained and all("lora_" in name for name in trained), trained)
        return self.check(make, next_word, **options)

    def test_on_gpt2(self):
        self.check_adapted(adapted(gpt2("sdpa"), ["c_attn"], fan_in_fan_out=True))

    def test_on_llama(self):
        self.check_adapted(adapted(llama("sdpa"), ["q_proj", "v_proj", "down_proj"]))

    def test_rank_stabilized_and_with_magnitudes(self):
        self.check_adapted(adapted(llama("eager"), ["q_proj", "v_proj"], use_rslora=True))
        make = adapted(llama("sdpa"), ["q_proj", "v_proj"], use_dora=True)
        self.check(make, next_word)

    def test_with_gradient_checkpointing_of_a_frozen_base(self):
        def make():
            model = adapted(llama("sdpa"), ["q_proj", "v_proj"])()
            model.enable_input_require_grads()
            model.base_model.model.activation_checkpointing_enable({"use_reentrant": True})
            return model.train()

        self.check_adapted(make, share=0.15, inside=True)


if __name__ == "__main__":
    unittest.main()
