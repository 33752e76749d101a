// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/model_shape.h"

#include "train/bad_value.h"

#include <algorithm>
#include <array>
#include <string>

namespace spillway::train {

namespace {

struct Preset {
    std::string_view name;
    ModelShape shape;
};

constexpr ModelShape gpt2(std::int64_t layers, std::int64_t heads, std::int64_t width) {
    return {
        .style = Style::gpt2,
        .layers = layers,
        .heads = heads,
        .kv_heads = heads,
        .width = width,
        .hidden = 4 * width,
        .vocab_size = 50257,
        .positions = 1024,
        .sequence = 1024,
        .batch = 1,
        .dropout = 0.0};
}

// Radford et al. 2019, table 2 (sizes as later corrected by its authors); Touvron et al. 2023.
constexpr std::array<Preset, 5> kPresets{{
    {"gpt2-124m", gpt2(12, 12, 768)},
    {"gpt2-345m", gpt2(24, 16, 1024)},
    {"gpt2-774m", gpt2(36, 20, 1280)},
    {"gpt2-1.5b", gpt2(48, 25, 1600)},
    {"llama2-7b",
     {.style = Style::llama2,
      .layers = 32,
      .heads = 32,
      .kv_heads = 32,
      .width = 4096,
      .hidden = 11008,
      .vocab_size = 32000,
      .positions = 4096,
      .sequence = 4096,
      .batch = 1,
      .dropout = 0.0}},
}};

// The demo's: saved activations are most of the memory, and the work for each of their bytes is
// as much as fits under its cap (docs/overview.md has the numbers).
constexpr ModelShape kDemo{
    .style = Style::gpt2,
    .layers = 6,
    .heads = 8,
    .kv_heads = 8,
    .width = 512,
    .hidden = 2048,
    .vocab_size = 256,
    .positions = 0,
    .sequence = 1024,
    .batch = 10,
    .dropout = 0.0};

constexpr std::int64_t kBytes = 256;

ModelShape base_shape(TrainOptions const& options) {
    if (options.preset.empty()) {
        return kDemo;
    }
    for (Preset const& preset : kPresets) {
        if (preset.name == options.preset) {
            return preset.shape;
        }
    }
    std::string known;
    for (Preset const& preset : kPresets) {
        known += known.empty() ? "" : ", ";
        known += preset.name;
    }
    refuse("--preset", options.preset, "no such model; there are " + known);
}

Style style_of(TrainOptions const& options, Style base) {
    if (options.style.empty()) {
        return base;
    }
    Style style = Style::gpt2;
    if (options.style == "llama2") {
        style = Style::llama2;
    } else if (options.style != "gpt2") {
        refuse("--style", options.style, "no such style; there are gpt2 and llama2");
    }
    if (!options.preset.empty() && style != base) {
        refuse("--style", options.style, "the preset " + options.preset + " has another style");
    }
    return style;
}

// LLaMA's rule: two thirds of four times the width, up to a multiple of 256.
std::int64_t default_hidden(Style style, std::int64_t width) {
    if (style == Style::gpt2) {
        return 4 * width;
    }
    return (8 * width / 3 + 255) / 256 * 256;
}

std::int64_t asked_or(std::int64_t asked, std::int64_t otherwise) {
    return asked != 0 ? asked : otherwise;
}

void check(ModelShape const& shape) {
    if (shape.width % shape.heads != 0) {
        refuse(
            "--width",
            std::to_string(shape.width),
            "not divisible by --heads " + std::to_string(shape.heads)
        );
    }
    if (shape.heads % shape.kv_heads != 0) {
        refuse(
            "--kv-heads",
            std::to_string(shape.kv_heads),
            "--heads " + std::to_string(shape.heads) + " is not a multiple of it"
        );
    }
    if (shape.style == Style::gpt2 && shape.kv_heads != shape.heads) {
        refuse("--kv-heads", std::to_string(shape.kv_heads), "only --style llama2 shares them");
    }
    if (shape.style == Style::llama2 && shape.head_width() % 2 != 0) {
        refuse(
            "--width",
            std::to_string(shape.width),
            "rotary positions need an even width of each head"
        );
    }
    if (shape.vocab_size < kBytes) {
        refuse("--vocab-size", std::to_string(shape.vocab_size), "text is bytes and needs 256 ids");
    }
}

}  // namespace

std::string_view name_of(Style style) {
    return style == Style::gpt2 ? "gpt2" : "llama2";
}

std::vector<std::string_view> preset_names() {
    std::vector<std::string_view> names;
    for (Preset const& preset : kPresets) {
        names.push_back(preset.name);
    }
    return names;
}

ModelShape shape_of(TrainOptions const& options) {
    ModelShape shape = base_shape(options);
    Style const style = style_of(options, shape.style);
    bool const resized = options.width != 0 || style != shape.style;
    shape.style = style;
    shape.width = asked_or(options.width, shape.width);
    shape.hidden =
        asked_or(options.hidden, resized ? default_hidden(style, shape.width) : shape.hidden);
    shape.layers = asked_or(options.layers, shape.layers);
    bool const regrouped = options.heads != 0;
    shape.heads = asked_or(options.heads, shape.heads);
    shape.kv_heads = asked_or(options.kv_heads, regrouped ? shape.heads : shape.kv_heads);
    shape.vocab_size = asked_or(options.vocab_size, shape.vocab_size);
    shape.sequence = asked_or(options.sequence, shape.sequence);
    shape.batch = asked_or(options.batch, shape.batch);
    shape.positions = std::max(shape.positions, shape.sequence);
    shape.dropout = options.dropout;
    check(shape);
    return shape;
}

std::int64_t parameter_count(ModelShape const& shape) {
    std::int64_t const width = shape.width;
    std::int64_t const embedding = shape.vocab_size * width;
    if (shape.style == Style::gpt2) {
        std::int64_t const block = 4 * width * width + 4 * width  // qkv and projection
                                   + 2 * width * shape.hidden + shape.hidden + width  // mlp
                                   + 4 * width;  // two layer norms
        return embedding + shape.positions * width + shape.layers * block + 2 * width;
    }
    std::int64_t const kv_width = shape.kv_heads * shape.head_width();
    std::int64_t const block =
        2 * width * width + 2 * width * kv_width + 3 * width * shape.hidden + 2 * width;
    return 2 * embedding + shape.layers * block + width;
}

}  // namespace spillway::train
