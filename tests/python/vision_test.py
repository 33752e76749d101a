# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Models of torchvision: convolutions, batch norm, in-place ReLU, channels last, a vision transformer."""

import unittest

import torch
import torchvision
from same_bits import Case, noise, tokens

KINDS = 10


def loss_of(model, step, rows=8, size=64):
    """Images of no class in particular."""
    images = noise(rows, 3, size, size, step=step)
    return torch.nn.functional.cross_entropy(model(images), tokens(KINDS, rows, step=step))


def resnet():
    return torchvision.models.resnet18(num_classes=KINDS)


class Vision(Case):
    def test_resnet(self):
        self.check(resnet, lambda model, step: loss_of(model, step, rows=16))

    def test_resnet_with_channels_last(self):
        self.check(lambda: resnet().to(memory_format=torch.channels_last),
                   lambda model, step: loss_of(model.to(memory_format=torch.channels_last), step, rows=16))

    def test_statistics_of_batch_norm_are_the_same(self):
        models = []

        def make():
            models.append(resnet())
            return models[-1]

        self.check(make, lambda model, step: loss_of(model, step, rows=16))
        plain, _, moved = ([buffer.tolist() for buffer in model.buffers()] for model in models)
        self.assertEqual(plain, moved)

    def test_convnext(self):
        block = torchvision.models.convnext.CNBlockConfig
        parts = [block(32, 64, 1), block(64, None, 2)]
        self.check(lambda: torchvision.models.ConvNeXt(parts, 0.2, num_classes=KINDS), loss_of)

    def test_vision_transformer(self):
        self.check(lambda: torchvision.models.VisionTransformer(64, 8, 3, 4, 64, 256, 0.1, 0.1, KINDS),
                   lambda model, step: loss_of(model, step, rows=16))


if __name__ == "__main__":
    unittest.main()
