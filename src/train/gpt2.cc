// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// GPT-2: names of parameters as its authors have them, weights laid out as torch's Linear does.

#include "train/initialize.h"
#include "train/model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>

namespace spillway::train {

namespace {

namespace nn = torch::nn;

struct Attention : nn::Module {
    explicit Attention(ModelShape const& shape)
        : heads(shape.heads),
          dropout(shape.dropout),
          qkv(register_module("c_attn", nn::Linear(shape.width, 3 * shape.width))),
          projection(register_module("c_proj", nn::Linear(shape.width, shape.width))),
          drop(register_module("resid_dropout", nn::Dropout(shape.dropout))) {}

    at::Tensor forward(at::Tensor const& x) {
        auto const batch = x.size(0);
        auto const sequence = x.size(1);
        auto const width = x.size(2);
        auto const parts =
            qkv(x).view({batch, sequence, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
        at::Tensor const mixed_values = at::scaled_dot_product_attention(
            parts[0],
            parts[1],
            parts[2],
            /*attn_mask=*/{},
            /*dropout_p=*/is_training() ? dropout : 0.0,
            /*is_causal=*/true
        );
        return drop(projection(mixed_values.transpose(1, 2).reshape({batch, sequence, width})));
    }

    std::int64_t heads;
    double dropout;
    nn::Linear qkv;
    nn::Linear projection;
    nn::Dropout drop;
};

struct FeedForward : nn::Module {
    explicit FeedForward(ModelShape const& shape)
        : expansion(register_module("c_fc", nn::Linear(shape.width, shape.hidden))),
          projection(register_module("c_proj", nn::Linear(shape.hidden, shape.width))),
          drop(register_module("dropout", nn::Dropout(shape.dropout))) {}

    at::Tensor forward(at::Tensor const& x) {
        return drop(projection(at::gelu(expansion(x), "tanh")));
    }

    nn::Linear expansion;
    nn::Linear projection;
    nn::Dropout drop;
};

struct Block : nn::Module {
    explicit Block(ModelShape const& shape)
        : norm_1(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({shape.width})))),
          attention(register_module("attn", std::make_shared<Attention>(shape))),
          norm_2(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({shape.width})))),
          feed_forward(register_module("mlp", std::make_shared<FeedForward>(shape))) {}

    at::Tensor forward(at::Tensor x) {
        x = x + attention->forward(norm_1(x));
        return x + feed_forward->forward(norm_2(x));
    }

    nn::LayerNorm norm_1;
    std::shared_ptr<Attention> attention;
    nn::LayerNorm norm_2;
    std::shared_ptr<FeedForward> feed_forward;
};

class Gpt2 : public LanguageModel {
  public:
    Gpt2(ModelShape const& shape, std::int64_t seed)
        : tokens_(register_module("wte", nn::Embedding(shape.vocab_size, shape.width))),
          positions_(register_module("wpe", nn::Embedding(shape.positions, shape.width))),
          drop_(register_module("drop", nn::Dropout(shape.dropout))),
          blocks_(register_module("h", nn::ModuleList())),
          norm_(register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({shape.width})))) {
        for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
            blocks_->push_back(std::make_shared<Block>(shape));
        }
        initialize(shape, seed);
    }

    at::Tensor forward(at::Tensor const& ids) override {
        at::Tensor x = drop_(tokens_(ids) + positions_(at::arange(ids.size(1), ids.options())));
        for (auto const& block : *blocks_) {
            x = block->as<Block>()->forward(x);
        }
        return at::linear(norm_(x), tokens_->weight);
    }

  private:
    // 0.02 for all; projections into the residual smaller, as their sum grows with the depth.
    void initialize(ModelShape const& shape, std::int64_t seed) {
        constexpr double kDeviation = 0.02;
        double const into_residual =
            kDeviation / std::sqrt(2.0 * static_cast<double>(shape.layers));
        Initializer draw(seed);
        draw.normal(tokens_, kDeviation);
        draw.normal(positions_, kDeviation / 2);
        for (auto const& module : *blocks_) {
            auto const* block = module->as<Block>();
            draw.normal(block->attention->qkv, kDeviation);
            draw.normal(block->attention->projection, into_residual);
            draw.normal(block->feed_forward->expansion, kDeviation);
            draw.normal(block->feed_forward->projection, into_residual);
        }
    }

    nn::Embedding tokens_;
    nn::Embedding positions_;
    nn::Dropout drop_;
    nn::ModuleList blocks_;
    nn::LayerNorm norm_;
};

}  // namespace

std::shared_ptr<LanguageModel> make_gpt2(ModelShape const& shape, std::int64_t seed) {
    return std::make_shared<Gpt2>(shape, seed);
}

}  // namespace spillway::train
