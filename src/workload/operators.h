// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The operators that models share, with what stock torch's autograd saves of each.
#pragma once

#include "workload/tape.h"

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

/// x [rows, in] -> [rows, out]; saves x.
TapeTensor add_linear(
    Tape& tape,
    std::string const& module,
    TapeTensor x,
    std::int64_t rows,
    std::int64_t in,
    std::int64_t out,
    bool is_biased
);

/// Saves x [rows, width], and a mean and an inverse deviation a row in float32.
TapeTensor add_layer_norm(
    Tape& tape, std::string const& module, TapeTensor x, std::int64_t rows, std::int64_t width
);
/// Saves x [rows, width], and an inverse root mean square a row in float32.
TapeTensor add_rms_norm(
    Tape& tape, std::string const& module, TapeTensor x, std::int64_t rows, std::int64_t width
);

/// Saves its mask, a byte an element. `share` of 0: nothing happens.
TapeTensor add_dropout(
    Tape& tape, std::string const& module, TapeTensor x, std::int64_t elements, double share
);

/// GELU, SiLU: saves x.
TapeTensor add_activation(
    Tape& tape,
    std::string const& module,
    std::string const& node,
    TapeTensor x,
    std::int64_t elements
);
/// Saves its result.
TapeTensor add_relu(
    Tape& tape, std::string const& module, TapeTensor x, std::int64_t elements, bool is_in_place
);

/// x + branch; saves nothing.
TapeTensor add_sum(
    Tape& tape, std::string const& module, TapeTensor x, TapeTensor branch, std::int64_t elements
);
/// x * y; saves both.
TapeTensor add_product(
    Tape& tape, std::string const& module, TapeTensor x, TapeTensor y, std::int64_t elements
);

/// Rows of a table; saves the indices. Tied: the table is the last linear layer's, too, to whose
/// gradient it adds one of its own.
TapeTensor add_embedding(
    Tape& tape,
    std::string const& module,
    TapeTensor indices,
    std::int64_t rows,
    std::int64_t width,
    std::int64_t table_rows,
    ElementType dtype,
    bool is_tied = false
);

/// Mean over rows, in float32; saves the logarithms of the softmax, and the targets.
TapeTensor add_cross_entropy(
    Tape& tape, TapeTensor logits, std::int64_t rows, std::int64_t classes
);

struct AttentionShape {
    std::int64_t batch = 0;
    std::int64_t heads = 0;
    std::int64_t queries = 0;  ///< tokens
    std::int64_t keys = 0;
    std::int64_t head_width = 0;
    bool is_causal = false;
    bool is_fused = true;  ///< no scores in memory
    double dropout = 0;
};

/// Fused: saves what it reads, its result, and a float32 for each query and head; a dropout's mask
/// is made again from its seed. Not fused: saves what it reads, the softmax, and with a dropout its
/// mask and its result.
///
/// Shapes  `read`: queries, keys and values, in one storage or in three; a fourth is a bias [heads,
///         queries, keys] that all sequences share
TapeTensor add_attention(
    Tape& tape,
    std::string const& module,
    AttentionShape const& shape,
    std::vector<TapeTensor> const& read
);

}  // namespace spillway
