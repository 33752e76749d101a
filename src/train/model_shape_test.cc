// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/model_shape.h"

#include "train/bad_value.h"
#include "train/test_support.h"

#include <gtest/gtest.h>

namespace spillway::train {
namespace {

std::int64_t parameters_of(std::string const& preset) {
    TrainOptions options;
    options.preset = preset;
    return parameter_count(shape_of(options));
}

std::string refusal(TrainOptions const& options) {
    try {
        (void)shape_of(options);
    } catch (BadValue const& failure) {
        return failure.what();
    }
    return "accepted";
}

TEST(model_shape, presets_have_the_published_numbers_of_parameters) {
    EXPECT_EQ(parameters_of("gpt2-124m"), 124'439'808);
    EXPECT_EQ(parameters_of("gpt2-345m"), 354'823'168);
    EXPECT_EQ(parameters_of("gpt2-774m"), 774'030'080);
    EXPECT_EQ(parameters_of("gpt2-1.5b"), 1'557'611'200);
    EXPECT_EQ(parameters_of("llama2-7b"), 6'738'415'616);
}

TEST(model_shape, every_preset_is_listed_and_resolves) {
    for (std::string_view const name : preset_names()) {
        EXPECT_GT(parameters_of(std::string{name}), 0) << name;
    }
}

TEST(model_shape, flags_change_a_preset_and_what_follows_from_them) {
    TrainOptions options;
    options.preset = "gpt2-124m";
    options.width = 96;
    options.sequence = 2048;
    ModelShape const shape = shape_of(options);
    EXPECT_EQ(shape.hidden, 4 * 96);
    EXPECT_EQ(shape.layers, 12);
    EXPECT_EQ(shape.vocab_size, 50257);
    EXPECT_EQ(shape.positions, 2048);
}

TEST(model_shape, a_llama_of_the_demos_width_has_llamas_hidden_width) {
    TrainOptions options;
    options.style = "llama2";
    EXPECT_EQ(shape_of(options).hidden, 1536);
    options.kv_heads = 2;
    EXPECT_EQ(shape_of(options).kv_heads, 2);
}

TEST(model_shape, the_demos_states_are_below_a_sixth_of_its_saved_tensors) {
    ModelShape const shape = shape_of({});
    std::int64_t const states = 16 * parameter_count(shape);
    std::int64_t const saved = 64 * shape.width * shape.layers * shape.batch * shape.sequence;
    EXPECT_LT(6 * states, saved);
}

TEST(model_shape, what_cannot_be_is_refused_with_flag_and_value) {
    auto const with = [](auto member, auto value) {
        TrainOptions options;
        options.*member = value;
        return refusal(options);
    };
    EXPECT_NE(
        with(&TrainOptions::preset, "gpt9").find("--preset gpt9: no such model"), std::string::npos
    );
    EXPECT_NE(
        with(&TrainOptions::style, "bert").find("--style bert: no such style"), std::string::npos
    );
    EXPECT_EQ(with(&TrainOptions::width, 100), "--width 100: not divisible by --heads 8");
    EXPECT_EQ(with(&TrainOptions::kv_heads, 3), "--kv-heads 3: --heads 8 is not a multiple of it");
    EXPECT_EQ(with(&TrainOptions::kv_heads, 4), "--kv-heads 4: only --style llama2 shares them");
    EXPECT_NE(with(&TrainOptions::vocab_size, 255).find("--vocab-size 255: "), std::string::npos);
}

TEST(model_shape, a_style_that_is_not_the_presets_is_refused) {
    TrainOptions options;
    options.preset = "llama2-7b";
    options.style = "gpt2";
    EXPECT_NE(refusal(options).find("--style gpt2: the preset llama2-7b"), std::string::npos);
}

TEST(model_shape, rotary_positions_need_even_heads) {
    TrainOptions options;
    options.style = "llama2";
    options.width = 24;
    EXPECT_NE(refusal(options).find("--width 24: rotary"), std::string::npos);
}

}  // namespace
}  // namespace spillway::train
