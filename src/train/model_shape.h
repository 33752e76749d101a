// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which model is trained: the named models' sizes, and what flags change of them. Free of torch.
#pragma once

#include "spillway/train.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::train {

enum class Style : std::uint8_t { gpt2, llama2 };

[[nodiscard]] std::string_view name_of(Style style);

/// The sizes of a model and of its batches.
struct ModelShape {
    Style style = Style::gpt2;
    std::int64_t layers = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t width = 0;
    std::int64_t hidden = 0;
    std::int64_t vocab_size = 0;
    std::int64_t positions = 0;  ///< rows of the position table, or of the rotary tables
    std::int64_t sequence = 0;
    std::int64_t batch = 0;
    double dropout = 0.0;

    bool operator==(ModelShape const&) const = default;
    [[nodiscard]] std::int64_t head_width() const { return width / heads; }
};

/// "gpt2-124m", ... in the order of size.
[[nodiscard]] std::vector<std::string_view> preset_names();

/// The preset's sizes (or the demo's), overridden by the flags.
///
/// Fails   BadValue naming the flag and its value: unknown preset or style, a style that is not the
///         preset's, width not divisible by heads, heads by kv-heads, an odd rotary head, a
///         vocabulary without room for the 256 bytes
[[nodiscard]] ModelShape shape_of(TrainOptions const& options);

/// Parameters of the model in elements; a tied head counts once.
[[nodiscard]] std::int64_t parameter_count(ModelShape const& shape);

}  // namespace spillway::train
