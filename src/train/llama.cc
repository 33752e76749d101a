// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// LLaMA 2: names of parameters as on the Hugging Face hub, so that its files can be read later.

#include "train/initialize.h"
#include "train/layers.h"
#include "train/model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>

namespace spillway::train {

namespace {

namespace nn = torch::nn;

std::shared_ptr<Linear> without_bias(std::int64_t in, std::int64_t out, c10::Device device) {
    return std::make_shared<Linear>(in, out, /*biased=*/false, device);
}

struct RmsNorm : nn::Module {
    RmsNorm(std::int64_t width, c10::Device device)
        : weight(register_parameter("weight", at::ones({width}, device))) {}

    at::Tensor forward(at::Tensor const& x) const {
        constexpr double kEpsilon = 1e-5;
        return at::rms_norm(x, weight.sizes(), weight, kEpsilon);
    }

    at::Tensor weight;
};

/// The cosines and sines of rotary positions [positions, head width]; not parameters. They come
/// from the CPU, so that they are the same on every device.
struct Rotary : nn::Module {
    Rotary(std::int64_t positions, std::int64_t head_width, c10::Device device) {
        constexpr double kBase = 10000.0;
        at::Tensor const exponent =
            at::arange(0, head_width, 2, at::kFloat) / static_cast<double>(head_width);
        at::Tensor const angles =
            at::outer(at::arange(positions, at::kFloat), at::pow(kBase, exponent).reciprocal());
        at::Tensor const both = at::cat({angles, angles}, -1);
        cosines = register_buffer("cosines", both.cos().to(device));
        sines = register_buffer("sines", both.sin().to(device));
    }

    /// Turns x [batch, heads, sequence, head width] by its positions.
    at::Tensor forward(at::Tensor const& x) const {
        auto const sequence = x.size(2);
        auto const halves = x.chunk(2, -1);
        at::Tensor const turned = at::cat({-halves[1], halves[0]}, -1);
        at::Tensor const here = cosines.narrow(0, 0, sequence).to(x.scalar_type());
        return x * here + turned * sines.narrow(0, 0, sequence).to(x.scalar_type());
    }

    at::Tensor cosines;
    at::Tensor sines;
};

struct Attention : nn::Module {
    Attention(ModelShape const& shape, c10::Device device)
        : heads(shape.heads),
          kv_heads(shape.kv_heads),
          head_width(shape.head_width()),
          dropout(shape.dropout),
          q(register_module("q_proj", without_bias(shape.width, shape.width, device))),
          k(register_module("k_proj", without_bias(shape.width, kv_heads * head_width, device))),
          v(register_module("v_proj", without_bias(shape.width, kv_heads * head_width, device))),
          out(register_module("o_proj", without_bias(shape.width, shape.width, device))) {}

    at::Tensor forward(at::Tensor const& x, Rotary const& rotary) {
        auto const batch = x.size(0);
        auto const sequence = x.size(1);
        auto const split = [&](at::Tensor const& y, std::int64_t parts) {
            return y.view({batch, sequence, parts, head_width}).transpose(1, 2);
        };
        at::Tensor const queries = rotary.forward(split(q->forward(x), heads));
        at::Tensor const keys = shared(rotary.forward(split(k->forward(x), kv_heads)));
        at::Tensor const values = shared(split(v->forward(x), kv_heads));
        at::Tensor const mixed_values = at::scaled_dot_product_attention(
            queries, keys, values, {}, is_training() ? dropout : 0.0, /*is_causal=*/true
        );
        return out->forward(
            mixed_values.transpose(1, 2).reshape({batch, sequence, heads * head_width})
        );
    }

    /// Each key and value head serves heads / kv_heads query heads.
    at::Tensor shared(at::Tensor const& x) const {
        return heads == kv_heads ? x : x.repeat_interleave(heads / kv_heads, 1);
    }

    std::int64_t heads;
    std::int64_t kv_heads;
    std::int64_t head_width;
    double dropout;
    std::shared_ptr<Linear> q;
    std::shared_ptr<Linear> k;
    std::shared_ptr<Linear> v;
    std::shared_ptr<Linear> out;
};

struct FeedForward : nn::Module {
    FeedForward(ModelShape const& shape, c10::Device device)
        : gate(register_module("gate_proj", without_bias(shape.width, shape.hidden, device))),
          up(register_module("up_proj", without_bias(shape.width, shape.hidden, device))),
          down(register_module("down_proj", without_bias(shape.hidden, shape.width, device))) {}

    at::Tensor forward(at::Tensor const& x) {
        return down->forward(at::silu(gate->forward(x)) * up->forward(x));
    }

    std::shared_ptr<Linear> gate;
    std::shared_ptr<Linear> up;
    std::shared_ptr<Linear> down;
};

struct Block : nn::Module {
    Block(ModelShape const& shape, c10::Device device)
        : norm_1(register_module("input_layernorm", std::make_shared<RmsNorm>(shape.width, device))
          ),
          attention(register_module("self_attn", std::make_shared<Attention>(shape, device))),
          norm_2(register_module(
              "post_attention_layernorm", std::make_shared<RmsNorm>(shape.width, device)
          )),
          feed_forward(register_module("mlp", std::make_shared<FeedForward>(shape, device))),
          drop(register_module("dropout", nn::Dropout(shape.dropout))) {}

    at::Tensor forward(at::Tensor x, Rotary const& rotary) {
        x = x + drop(attention->forward(norm_1->forward(x), rotary));
        return x + drop(feed_forward->forward(norm_2->forward(x)));
    }

    std::shared_ptr<RmsNorm> norm_1;
    std::shared_ptr<Attention> attention;
    std::shared_ptr<RmsNorm> norm_2;
    std::shared_ptr<FeedForward> feed_forward;
    nn::Dropout drop;
};

/// The part that the hub's files call "model": all but the head.
struct Decoder : nn::Module {
    Decoder(ModelShape const& shape, c10::Device device)
        : tokens(register_module(
              "embed_tokens", std::make_shared<Embedding>(shape.vocab_size, shape.width, device)
          )),
          rotary(register_module(
              "rotary", std::make_shared<Rotary>(shape.positions, shape.head_width(), device)
          )),
          blocks(register_module("layers", nn::ModuleList())),
          norm(register_module("norm", std::make_shared<RmsNorm>(shape.width, device))) {
        for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
            blocks->push_back(std::make_shared<Block>(shape, device));
        }
    }

    std::shared_ptr<Embedding> tokens;
    std::shared_ptr<Rotary> rotary;
    nn::ModuleList blocks;
    std::shared_ptr<RmsNorm> norm;
};

class Llama : public LanguageModel {
  public:
    Llama(ModelShape const& shape, std::int64_t seed, c10::Device device)
        : decoder_(register_module("model", std::make_shared<Decoder>(shape, device))),
          head_(register_module("lm_head", without_bias(shape.width, shape.vocab_size, device))) {
        initialize(seed);
    }

    at::Tensor forward(at::Tensor const& ids) override {
        at::Tensor x = decoder_->tokens->forward(ids);
        Rotary const& rotary = *decoder_->rotary;
        for (auto const& module : *decoder_->blocks) {
            auto* const block = module->as<Block>();
            x = run([=, &rotary](at::Tensor const& y) { return block->forward(y, rotary); }, x);
        }
        return head_->forward(decoder_->norm->forward(x));
    }

  private:
    void initialize(std::int64_t seed) {
        constexpr double kDeviation = 0.02;
        Initializer draw(seed);
        draw.normal(*decoder_->tokens, kDeviation);
        for (auto const& module : *decoder_->blocks) {
            auto const* block = module->as<Block>();
            for (auto const& linear :
                 {block->attention->q,
                  block->attention->k,
                  block->attention->v,
                  block->attention->out,
                  block->feed_forward->gate,
                  block->feed_forward->up,
                  block->feed_forward->down}) {
                draw.normal(*linear, kDeviation);
            }
        }
        draw.normal(*head_, kDeviation);
    }

    std::shared_ptr<Decoder> decoder_;
    std::shared_ptr<Linear> head_;
};

}  // namespace

std::shared_ptr<LanguageModel> make_llama(
    ModelShape const& shape, std::int64_t seed, c10::Device device
) {
    return std::make_shared<Llama>(shape, seed, device);
}

}  // namespace spillway::train
