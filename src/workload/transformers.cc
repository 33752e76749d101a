// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "workload/models.h"
#include "workload/operators.h"

#include <algorithm>
#include <string>
#include <vector>

namespace spillway {

namespace {

/// One model under construction.
class TransformerTape {
  public:
    TransformerTape(TransformerShape const& shape, ModelInput const& input)
        : shape_(shape), input_(input), elements_(input.rows() * shape.width) {}

    TapeTensor tokens() { return tape_.input(input_.rows(), kInt64); }
    TapeTensor embedding(std::string const& module, std::int64_t table_rows, bool is_tied = false) {
        return add_embedding(
            tape_, module, tokens(), input_.rows(), shape_.width, table_rows, input_.dtype, is_tied
        );
    }
    TapeTensor linear(
        std::string const& module, TapeTensor x, std::int64_t in, std::int64_t out, bool is_biased
    ) {
        return add_linear(tape_, module, x, input_.rows(), in, out, is_biased);
    }
    TapeTensor layer_norm(std::string const& module, TapeTensor x) {
        return add_layer_norm(tape_, module, x, input_.rows(), shape_.width);
    }
    TapeTensor rms_norm(std::string const& module, TapeTensor x) {
        return add_rms_norm(tape_, module, x, input_.rows(), shape_.width);
    }
    TapeTensor dropout(std::string const& module, TapeTensor x) {
        return add_dropout(tape_, module, x, elements_, input_.dropout);
    }
    TapeTensor sum(std::string const& module, TapeTensor x, TapeTensor branch) {
        return add_sum(tape_, module, x, branch, elements_);
    }
    TapeTensor attention(
        std::string const& module, bool is_causal, std::vector<TapeTensor> const& read
    ) {
        return add_attention(
            tape_,
            module,
            {.batch = input_.batch,
             .heads = shape_.heads,
             .queries = input_.sequence,
             .keys = input_.sequence,
             .head_width = shape_.head_width,
             .is_causal = is_causal,
             .is_fused = input_.fused_attention,
             .dropout = input_.dropout},
            read
        );
    }
    /// linear, GELU, linear.
    TapeTensor gelu_layers(
        std::string const& up, std::string const& act, std::string const& down, TapeTensor x
    ) {
        x = linear(up, x, shape_.width, shape_.hidden, true);
        x = add_activation(tape_, act, "GeluBackward0", x, input_.rows() * shape_.hidden);
        return linear(down, x, shape_.hidden, shape_.width, true);
    }
    void loss(std::string const& module, TapeTensor x, bool is_biased = false) {
        x = linear(module, x, shape_.width, shape_.vocabulary, is_biased);
        add_cross_entropy(tape_, x, input_.rows(), shape_.vocabulary);
    }

    [[nodiscard]] Tape& tape() { return tape_; }

  private:
    TransformerShape const& shape_;
    ModelInput const& input_;
    std::int64_t elements_;
    Tape tape_;
};

}  // namespace

Tape gpt2_tape(TransformerShape const& shape, ModelInput const& input) {
    TransformerTape m(shape, input);
    TapeTensor const words = m.embedding("wte", shape.vocabulary, /*is_tied=*/true);
    TapeTensor const places = add_embedding(
        m.tape(),
        "wpe",
        m.tape().input(input.sequence, kInt64),
        input.sequence,
        shape.width,
        std::max(shape.positions, input.sequence),
        input.dtype
    );
    TapeTensor x = m.dropout("drop", m.sum("", words, places));
    for (std::int64_t i = 0; i < shape.layers; ++i) {
        std::string const at = "h." + std::to_string(i);
        TapeTensor y = m.layer_norm(at + ".ln_1", x);
        y = m.linear(at + ".attn.c_attn", y, shape.width, 3 * shape.width, true);
        y = m.attention(at + ".attn", /*is_causal=*/true, {y});
        y = m.linear(at + ".attn.c_proj", y, shape.width, shape.width, true);
        x = m.sum(at, x, m.dropout(at + ".attn.resid_dropout", y));
        y = m.layer_norm(at + ".ln_2", x);
        y = m.gelu_layers(at + ".mlp.c_fc", at + ".mlp.act", at + ".mlp.c_proj", y);
        x = m.sum(at, x, m.dropout(at + ".mlp.dropout", y));
    }
    m.loss("lm_head", m.layer_norm("ln_f", x));
    return m.tape();
}

namespace {

/// Queries or keys times cosines and sines: several operators that save none of them.
TapeTensor add_rotation(
    Tape& tape, std::string const& module, TapeTensor x, std::int64_t elements
) {
    return tape.add(
        {.module = module,
         .node = "AddBackward0",
         .inputs = {x},
         .outputs = {{elements, tape.tensors()[x.number].dtype}},
         .passes = 3}
    );
}

}  // namespace

Tape llama_tape(TransformerShape const& shape, ModelInput const& input) {
    TransformerTape m(shape, input);
    std::int64_t const width = shape.width;
    std::int64_t const hidden = shape.hidden;
    TapeTensor x = m.embedding("embed_tokens", shape.vocabulary);
    for (std::int64_t i = 0; i < shape.layers; ++i) {
        std::string const at = "layers." + std::to_string(i);
        TapeTensor y = m.rms_norm(at + ".input_layernorm", x);
        TapeTensor q = m.linear(at + ".self_attn.q_proj", y, width, width, false);
        TapeTensor k = m.linear(at + ".self_attn.k_proj", y, width, width, false);
        TapeTensor const v = m.linear(at + ".self_attn.v_proj", y, width, width, false);
        q = add_rotation(m.tape(), at + ".self_attn", q, input.rows() * width);
        k = add_rotation(m.tape(), at + ".self_attn", k, input.rows() * width);
        y = m.attention(at + ".self_attn", /*is_causal=*/true, {q, k, v});
        x = m.sum(at, x, m.linear(at + ".self_attn.o_proj", y, width, width, false));
        y = m.rms_norm(at + ".post_attention_layernorm", x);
        TapeTensor gate = m.linear(at + ".mlp.gate_proj", y, width, hidden, false);
        gate = add_activation(
            m.tape(), at + ".mlp.act_fn", "SiluBackward0", gate, input.rows() * hidden
        );
        TapeTensor const up = m.linear(at + ".mlp.up_proj", y, width, hidden, false);
        y = add_product(m.tape(), at + ".mlp", gate, up, input.rows() * hidden);
        x = m.sum(at, x, m.linear(at + ".mlp.down_proj", y, hidden, width, false));
    }
    m.loss("lm_head", m.rms_norm("norm", x));
    return m.tape();
}

Tape bert_tape(TransformerShape const& shape, ModelInput const& input) {
    TransformerTape m(shape, input);
    std::int64_t const width = shape.width;
    std::int64_t const positions = std::max(shape.positions, input.sequence);
    TapeTensor x = m.embedding("embeddings.word_embeddings", shape.vocabulary, /*is_tied=*/true);
    x = m.sum("embeddings", x, m.embedding("embeddings.token_type_embeddings", 2));
    TapeTensor const places = add_embedding(
        m.tape(),
        "embeddings.position_embeddings",
        m.tape().input(input.sequence, kInt64),
        input.sequence,
        width,
        positions,
        input.dtype
    );
    x = m.layer_norm("embeddings.LayerNorm", m.sum("embeddings", x, places));
    x = m.dropout("embeddings.dropout", x);
    for (std::int64_t i = 0; i < shape.layers; ++i) {
        std::string const at = "encoder.layer." + std::to_string(i);
        std::string const self = at + ".attention.self";
        TapeTensor const q = m.linear(self + ".query", x, width, width, true);
        TapeTensor const k = m.linear(self + ".key", x, width, width, true);
        TapeTensor const v = m.linear(self + ".value", x, width, width, true);
        TapeTensor y = m.attention(self, /*is_causal=*/false, {q, k, v});
        y = m.linear(at + ".attention.output.dense", y, width, width, true);
        y = m.dropout(at + ".attention.output.dropout", y);
        x = m.layer_norm(at + ".attention.output.LayerNorm", m.sum(at + ".attention.output", x, y));
        y = m.gelu_layers(
            at + ".intermediate.dense",
            at + ".intermediate.intermediate_act_fn",
            at + ".output.dense",
            x
        );
        y = m.dropout(at + ".output.dropout", y);
        x = m.layer_norm(at + ".output.LayerNorm", m.sum(at + ".output", x, y));
    }
    x = m.linear("predictions.transform.dense", x, width, width, true);
    x = add_activation(
        m.tape(), "predictions.transform.act", "GeluBackward0", x, input.rows() * width
    );
    m.loss("predictions.decoder", m.layer_norm("predictions.transform.LayerNorm", x), true);
    return m.tape();
}

namespace {

/// T5's parts, which encoder and decoder share.
class T5Tape : public TransformerTape {
  public:
    T5Tape(TransformerShape const& shape, ModelInput const& input)
        : TransformerTape(shape, input),
          shape_(shape),
          input_(input),
          inner_(shape.heads * shape.head_width) {}

    /// Of a layer: `x`, and attention to `memory`, or to itself, with a bias if there is one.
    TapeTensor attend(
        std::string const& layer,
        std::string const& name,
        TapeTensor x,
        TapeTensor const* memory,
        TapeTensor const* bias
    ) {
        std::string const module = layer + "." + name;
        TapeTensor y = rms_norm(layer + ".layer_norm", x);
        TapeTensor const other = memory == nullptr ? y : *memory;
        TapeTensor const q = linear(module + ".q", y, shape_.width, inner_, false);
        TapeTensor const k = linear(module + ".k", other, shape_.width, inner_, false);
        TapeTensor const v = linear(module + ".v", other, shape_.width, inner_, false);
        std::vector<TapeTensor> read{q, k, v};
        if (bias != nullptr) {
            read.push_back(*bias);
        }
        // With a bias no score is left out of the computation.
        y = attention(module, /*is_causal=*/false, read);
        y = linear(module + ".o", y, inner_, shape_.width, false);
        return sum(layer, x, dropout(layer + ".dropout", y));
    }

    TapeTensor feed_forward(std::string const& layer, TapeTensor x) {
        std::string const module = layer + ".DenseReluDense";
        std::int64_t const hidden = input_.rows() * shape_.hidden;
        TapeTensor y = rms_norm(layer + ".layer_norm", x);
        y = linear(module + ".wi", y, shape_.width, shape_.hidden, false);
        y = add_relu(tape(), module + ".act", y, hidden, /*is_in_place=*/false);
        y = add_dropout(tape(), module + ".dropout", y, hidden, input_.dropout);
        y = linear(module + ".wo", y, shape_.hidden, shape_.width, false);
        return sum(layer, x, dropout(layer + ".dropout", y));
    }

    /// The first layer's table of relative positions, which all layers of a stack use.
    TapeTensor bias(std::string const& stack) {
        std::int64_t const pairs = input_.sequence * input_.sequence;
        constexpr std::int64_t kBuckets = 32;
        return add_embedding(
            tape(),
            stack + ".block.0.layer.0.SelfAttention.relative_attention_bias",
            tape().input(pairs, kInt64),
            pairs,
            shape_.heads,
            kBuckets,
            input_.dtype
        );
    }

    TapeTensor stack(std::string const& name, TapeTensor const* memory) {
        // One table of words for both stacks and the output, whose operator has its gradient.
        TapeTensor x = embedding(name + ".embed_tokens", shape_.vocabulary, /*is_tied=*/true);
        x = dropout(name + ".dropout", x);
        TapeTensor const places = bias(name);
        for (std::int64_t i = 0; i < shape_.layers; ++i) {
            std::string const at = name + ".block." + std::to_string(i) + ".layer.";
            x = attend(at + "0", "SelfAttention", x, nullptr, &places);
            if (memory != nullptr) {
                x = attend(at + "1", "EncDecAttention", x, memory, nullptr);
            }
            x = feed_forward(at + (memory == nullptr ? "1" : "2"), x);
        }
        return dropout(name + ".dropout", rms_norm(name + ".final_layer_norm", x));
    }

  private:
    TransformerShape const& shape_;
    ModelInput const& input_;
    std::int64_t inner_;
};

}  // namespace

Tape t5_tape(TransformerShape const& shape, ModelInput const& input) {
    T5Tape m(shape, input);
    TapeTensor const memory = m.stack("encoder", nullptr);
    m.loss("lm_head", m.stack("decoder", &memory));
    return m.tape();
}

}  // namespace spillway
