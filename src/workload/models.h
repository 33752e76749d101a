// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The forward passes of the catalogue's models, as their authors and stock torch have them.
#pragma once

#include "workload/tape.h"

#include <cstdint>

namespace spillway {

/// What every model takes; pictures have no sequence and no attention.
struct ModelInput {
    std::int64_t batch = 0;
    std::int64_t sequence = 0;
    ElementType dtype = kFloat32;
    bool fused_attention = true;
    double dropout = 0;
    std::int64_t layers = 0;  ///< of a transformer; 0: as many as the model has

    [[nodiscard]] std::int64_t rows() const { return batch * sequence; }
};

struct TransformerShape {
    std::int64_t layers = 0;  ///< of T5: of the encoder, and as many of the decoder
    std::int64_t width = 0;
    std::int64_t heads = 0;
    std::int64_t hidden = 0;  ///< of the feed-forward part
    std::int64_t vocabulary = 0;
    std::int64_t positions = 0;  ///< rows of the table of positions; none: 0
    std::int64_t head_width = 0;
};

/// GPT-2 (Radford et al., 2019), with tied embeddings.
[[nodiscard]] Tape gpt2_tape(TransformerShape const& shape, ModelInput const& input);
/// LLaMA-2 (Touvron et al., 2023).
[[nodiscard]] Tape llama_tape(TransformerShape const& shape, ModelInput const& input);
/// BERT (Devlin et al., 2019), trained on masked words.
[[nodiscard]] Tape bert_tape(TransformerShape const& shape, ModelInput const& input);
/// T5 (Raffel et al., 2020): `sequence` tokens in the encoder and in the decoder.
[[nodiscard]] Tape t5_tape(TransformerShape const& shape, ModelInput const& input);

/// VGG-16 (Simonyan and Zisserman, 2015), of pictures of 224 x 224, ReLUs in place.
[[nodiscard]] Tape vgg16_tape(ModelInput const& input);
/// ResNet (He et al., 2016) of bottlenecks; `blocks`: in its four stages.
[[nodiscard]] Tape resnet_tape(std::int64_t const (&blocks)[4], ModelInput const& input);

}  // namespace spillway
