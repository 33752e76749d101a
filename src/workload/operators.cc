// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "workload/operators.h"

namespace spillway {

namespace {

ElementType dtype_of(Tape const& tape, TapeTensor tensor) {
    return tape.tensors()[tensor.number].dtype;
}

}  // namespace

TapeTensor add_linear(
    Tape& tape,
    std::string const& module,
    TapeTensor x,
    std::int64_t rows,
    std::int64_t in,
    std::int64_t out,
    bool is_biased
) {
    return tape.add(
        {.module = module,
         .node = is_biased ? "AddmmBackward0" : "MmBackward0",
         .inputs = {x},
         .saves = {{x, TensorClass::linear_input}},
         .outputs = {{rows * out, dtype_of(tape, x)}},
         .flop = 2.0 * static_cast<double>(rows) * static_cast<double>(in * out),
         .parameters = in * out + (is_biased ? out : 0)}
    );
}

TapeTensor add_layer_norm(
    Tape& tape, std::string const& module, TapeTensor x, std::int64_t rows, std::int64_t width
) {
    return tape.add(
        {.module = module,
         .node = "NativeLayerNormBackward0",
         .inputs = {x},
         .saves = {{x, TensorClass::norm_input}},
         .outputs =
             {{rows * width, dtype_of(tape, x)},
              {rows, kFloat32, TensorClass::statistics},
              {rows, kFloat32, TensorClass::statistics}},
         .parameters = 2 * width}
    );
}

TapeTensor add_rms_norm(
    Tape& tape, std::string const& module, TapeTensor x, std::int64_t rows, std::int64_t width
) {
    return tape.add(
        {.module = module,
         .node = "FusedRmsNormBackward0",
         .inputs = {x},
         .saves = {{x, TensorClass::norm_input}},
         .outputs = {{rows * width, dtype_of(tape, x)}, {rows, kFloat32, TensorClass::statistics}},
         .parameters = width}
    );
}

TapeTensor add_dropout(
    Tape& tape, std::string const& module, TapeTensor x, std::int64_t elements, double share
) {
    if (share <= 0) {
        return x;
    }
    return tape.add(
        {.module = module,
         .node = "NativeDropoutBackward0",
         .inputs = {x},
         .outputs = {{elements, dtype_of(tape, x)}, {elements, kBool, TensorClass::mask, true}}}
    );
}

TapeTensor add_activation(
    Tape& tape,
    std::string const& module,
    std::string const& node,
    TapeTensor x,
    std::int64_t elements
) {
    return tape.add(
        {.module = module,
         .node = node,
         .inputs = {x},
         .saves = {{x, TensorClass::activation_input}},
         .outputs = {{elements, dtype_of(tape, x)}}}
    );
}

TapeTensor add_relu(
    Tape& tape, std::string const& module, TapeTensor x, std::int64_t elements, bool is_in_place
) {
    return tape.add(
        {.module = module,
         .node = "ReluBackward0",
         .inputs = {x},
         .outputs = {{elements, dtype_of(tape, x), TensorClass::relu_output}},
         .is_in_place = is_in_place}
    );
}

TapeTensor add_sum(
    Tape& tape, std::string const& module, TapeTensor x, TapeTensor branch, std::int64_t elements
) {
    return tape.add(
        {.module = module,
         .node = "AddBackward0",
         .inputs = {x, branch},
         .outputs = {{elements, dtype_of(tape, x)}},
         .shares_gradient = true}
    );
}

TapeTensor add_product(
    Tape& tape, std::string const& module, TapeTensor x, TapeTensor y, std::int64_t elements
) {
    return tape.add(
        {.module = module,
         .node = "MulBackward0",
         .inputs = {x, y},
         .saves = {{x, TensorClass::other}, {y, TensorClass::other}},
         .outputs = {{elements, dtype_of(tape, x)}}}
    );
}

TapeTensor add_embedding(
    Tape& tape,
    std::string const& module,
    TapeTensor indices,
    std::int64_t rows,
    std::int64_t width,
    std::int64_t table_rows,
    ElementType dtype,
    bool is_tied
) {
    return tape.add(
        {.module = module,
         .node = "EmbeddingBackward0",
         .inputs = {indices},
         .saves = {{indices, TensorClass::index}},
         .outputs = {{rows * width, dtype}},
         .parameters = is_tied ? 0 : table_rows * width,
         .backward_temporary_bytes = is_tied ? table_rows * width * dtype.size_bytes : 0}
    );
}

TapeTensor add_cross_entropy(
    Tape& tape, TapeTensor logits, std::int64_t rows, std::int64_t classes
) {
    TapeTensor const targets = tape.input(rows, kInt64);
    bool const is_half = dtype_of(tape, logits) != kFloat32;
    TapeTensor const in_float = is_half ? tape.add(
                                              {.node = "ToCopyBackward0",
                                               .inputs = {logits},
                                               .outputs = {{rows * classes, kFloat32}}}
                                          )
                                        : logits;
    TapeTensor const logarithms = tape.add(
        {.node = "LogSoftmaxBackward0",
         .inputs = {in_float},
         .outputs = {{rows * classes, kFloat32, TensorClass::other}}}
    );
    return tape.add(
        {.node = "NllLossBackward0",
         .inputs = {logarithms, targets},
         .saves = {{logarithms, TensorClass::other}, {targets, TensorClass::index}},
         .outputs = {{1, kFloat32}}}
    );
}

namespace {

std::vector<TapeSave> saved_for_attention(std::vector<TapeTensor> const& read) {
    std::vector<TapeSave> saves;
    for (TapeTensor const tensor : read) {
        saves.push_back({tensor, TensorClass::attention});
    }
    return saves;
}

/// Of queries with keys, or of the softmax with values.
double flop_of_product(AttentionShape const& shape) {
    return 2.0 * static_cast<double>(shape.batch * shape.heads * shape.head_width) *
           static_cast<double>(shape.queries) * static_cast<double>(shape.keys);
}

TapeTensor add_fused_attention(
    Tape& tape,
    std::string const& module,
    AttentionShape const& shape,
    std::vector<TapeTensor> const& read
) {
    ElementType const dtype = dtype_of(tape, read[0]);
    std::int64_t const rows = shape.batch * shape.heads * shape.queries;
    return tape.add(
        {.module = module,
         .node = dtype == kFloat32 ? "ScaledDotProductEfficientAttentionBackward0"
                                   : "ScaledDotProductFlashAttentionBackward0",
         .inputs = read,
         .saves = saved_for_attention(read),
         .outputs =
             {{rows * shape.head_width, dtype, TensorClass::attention},
              {rows, kFloat32, TensorClass::statistics}},
         // Half of the scores are not computed where a query sees earlier keys alone; backward has
         // five products to forward's two.
         .flop = 2 * flop_of_product(shape) * (shape.is_causal ? 0.5 : 1.0),
         .backward_flops = 2.5}
    );
}

TapeTensor add_scores_attention(
    Tape& tape,
    std::string const& module,
    AttentionShape const& shape,
    std::vector<TapeTensor> const& read
) {
    ElementType const dtype = dtype_of(tape, read[0]);
    std::int64_t const rows = shape.batch * shape.heads * shape.queries;
    std::int64_t const scores = rows * shape.keys;
    bool const is_one = read.size() == 1;
    std::vector<TapeTensor> const with_keys = is_one ? read : std::vector{read[0], read[1]};
    TapeTensor x = tape.add(
        {.module = module,
         .node = "BmmBackward0",
         .inputs = with_keys,
         .saves = saved_for_attention(with_keys),
         .outputs = {{scores, dtype}},
         .flop = flop_of_product(shape)}
    );
    if (read.size() > 3) {
        x = add_sum(tape, module, x, read[3], scores);
    }
    x = tape.add(
        {.module = module,
         .node = "SoftmaxBackward0",
         .inputs = {x},
         .outputs = {{scores, dtype, TensorClass::attention}},
         .passes = 2}  // scale and mask
    );
    x = add_dropout(tape, module, x, scores, shape.dropout);
    std::vector<TapeTensor> const with_values{x, is_one ? read[0] : read[2]};
    return tape.add(
        {.module = module,
         .node = "BmmBackward0",
         .inputs = with_values,
         .saves = saved_for_attention(with_values),
         .outputs = {{rows * shape.head_width, dtype}},
         .flop = flop_of_product(shape)}
    );
}

}  // namespace

TapeTensor add_attention(
    Tape& tape,
    std::string const& module,
    AttentionShape const& shape,
    std::vector<TapeTensor> const& read
) {
    return shape.is_fused ? add_fused_attention(tape, module, shape, read)
                          : add_scores_attention(tape, module, shape, read);
}

}  // namespace spillway
