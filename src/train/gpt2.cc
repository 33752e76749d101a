// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// GPT-2: names of parameters as its authors have them, weights laid out as torch's Linear does.

#include "train/initialize.h"
#include "train/layers.h"
#include "train/model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>

#include <cmath>

namespace spillway::train {

namespace {

namespace nn = torch::nn;

std::shared_ptr<Linear> biased(std::int64_t in, std::int64_t out, c10::Device device) {
    return std::make_shared<Linear>(in, out, /*biased=*/true, device);
}

std::shared_ptr<Embedding> table(std::int64_t rows, std::int64_t width, c10::Device device) {
    return std::make_shared<Embedding>(rows, width, device);
}

struct Attention : nn::Module {
    Attention(ModelShape const& shape, c10::Device device)
        : heads(shape.heads),
          dropout(shape.dropout),
          qkv(register_module("c_attn", biased(shape.width, 3 * shape.width, device))),
          projection(register_module("c_proj", biased(shape.width, shape.width, device))),
          drop(register_module("resid_dropout", nn::Dropout(shape.dropout))) {}

    at::Tensor forward(at::Tensor const& x) {
        auto const batch = x.size(0);
        auto const sequence = x.size(1);
        auto const width = x.size(2);
        auto const parts = qkv->forward(x)
                               .view({batch, sequence, 3, heads, width / heads})
                               .permute({2, 0, 3, 1, 4});
        at::Tensor const mixed_values = at::scaled_dot_product_attention(
            parts[0],
            parts[1],
            parts[2],
            /*attn_mask=*/{},
            /*dropout_p=*/is_training() ? dropout : 0.0,
            /*is_causal=*/true
        );
        return drop(
            projection->forward(mixed_values.transpose(1, 2).reshape({batch, sequence, width}))
        );
    }

    std::int64_t heads;
    double dropout;
    std::shared_ptr<Linear> qkv;
    std::shared_ptr<Linear> projection;
    nn::Dropout drop;
};

struct FeedForward : nn::Module {
    FeedForward(ModelShape const& shape, c10::Device device)
        : expansion(register_module("c_fc", biased(shape.width, shape.hidden, device))),
          projection(register_module("c_proj", biased(shape.hidden, shape.width, device))),
          drop(register_module("dropout", nn::Dropout(shape.dropout))) {}

    at::Tensor forward(at::Tensor const& x) {
        return drop(projection->forward(at::gelu(expansion->forward(x), "tanh")));
    }

    std::shared_ptr<Linear> expansion;
    std::shared_ptr<Linear> projection;
    nn::Dropout drop;
};

struct Block : nn::Module {
    Block(ModelShape const& shape, c10::Device device)
        : norm_1(register_module("ln_1", std::make_shared<LayerNorm>(shape.width, device))),
          attention(register_module("attn", std::make_shared<Attention>(shape, device))),
          norm_2(register_module("ln_2", std::make_shared<LayerNorm>(shape.width, device))),
          feed_forward(register_module("mlp", std::make_shared<FeedForward>(shape, device))) {}

    at::Tensor forward(at::Tensor x) {
        x = x + attention->forward(norm_1->forward(x));
        return x + feed_forward->forward(norm_2->forward(x));
    }

    std::shared_ptr<LayerNorm> norm_1;
    std::shared_ptr<Attention> attention;
    std::shared_ptr<LayerNorm> norm_2;
    std::shared_ptr<FeedForward> feed_forward;
};

class Gpt2 : public LanguageModel {
  public:
    Gpt2(ModelShape const& shape, std::int64_t seed, c10::Device device)
        : tokens_(register_module("wte", table(shape.vocab_size, shape.width, device))),
          positions_(register_module("wpe", table(shape.positions, shape.width, device))),
          drop_(register_module("drop", nn::Dropout(shape.dropout))),
          blocks_(register_module("h", nn::ModuleList())),
          norm_(register_module("ln_f", std::make_shared<LayerNorm>(shape.width, device))) {
        for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
            blocks_->push_back(std::make_shared<Block>(shape, device));
        }
        initialize(shape, seed);
    }

    at::Tensor forward(at::Tensor const& ids) override {
        at::Tensor const positions = at::arange(ids.size(1), ids.options());
        at::Tensor x = drop_(tokens_->forward(ids) + positions_->forward(positions));
        for (auto const& module : *blocks_) {
            auto* const block = module->as<Block>();
            x = run([block](at::Tensor const& y) { return block->forward(y); }, x);
        }
        return at::linear(norm_->forward(x), tokens_->weight);
    }

  private:
    // 0.02 for all; projections into the residual smaller, as their sum grows with the depth.
    void initialize(ModelShape const& shape, std::int64_t seed) {
        constexpr double kDeviation = 0.02;
        double const into_residual =
            kDeviation / std::sqrt(2.0 * static_cast<double>(shape.layers));
        Initializer draw(seed);
        draw.normal(*tokens_, kDeviation);
        draw.normal(*positions_, kDeviation / 2);
        for (auto const& module : *blocks_) {
            auto const* block = module->as<Block>();
            draw.normal(*block->attention->qkv, kDeviation);
            draw.normal(*block->attention->projection, into_residual);
            draw.normal(*block->feed_forward->expansion, kDeviation);
            draw.normal(*block->feed_forward->projection, into_residual);
        }
    }

    std::shared_ptr<Embedding> tokens_;
    std::shared_ptr<Embedding> positions_;
    nn::Dropout drop_;
    nn::ModuleList blocks_;
    std::shared_ptr<LayerNorm> norm_;
};

}  // namespace

std::shared_ptr<LanguageModel> make_gpt2(
    ModelShape const& shape, std::int64_t seed, c10::Device device
) {
    return std::make_shared<Gpt2>(shape, seed, device);
}

}  // namespace spillway::train
