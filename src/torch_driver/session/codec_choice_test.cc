// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/codec_choice.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace spillway {
namespace {

/// Gives every tensor one codec, and notes what it is asked.
class OneCodec final : public CodecRule {
  public:
    OneCodec(char const* codec, std::vector<SavedTensor>& asked)
        : CodecRule({}, {[] { return 0; }, [] { return Report{}; }}),
          codec_(parse_codec(codec).value()),
          asked_(asked) {}

    SavedAs of(SavedTensor const& tensor) override {
        asked_.push_back(tensor);
        SavedAs as;
        as.encoding = Encoding{codec_, *tensor.dtype, tensor.count};
        return as;
    }

  private:
    Codec codec_;
    std::vector<SavedTensor>& asked_;
};

SavedTensors::Fresh floats(std::int64_t storage_bytes) {
    return {
        .size_bytes = 4096,
        .slot = {},
        .storage_bytes = storage_bytes,
        .is_whole = true,
        .saver = {TensorClass::linear_input, c10::kFloat}};
}

struct CodecChoiceTest : testing::Test {
    [[nodiscard]] CodecChoice choice(char const* codec) {
        return CodecChoice(std::make_unique<OneCodec>(codec, asked));
    }
    [[nodiscard]] static bool encodes(CodecChoice& choice, std::int64_t storage_bytes = 4000) {
        return choice.of(floats(storage_bytes), Phase::forward, 3).encoding.has_value();
    }

    std::vector<SavedTensor> asked;
};

TEST_F(CodecChoiceTest, the_rule_is_asked_with_what_is_saved) {
    CodecChoice affine = choice("affine4");
    EXPECT_TRUE(encodes(affine));
    ASSERT_EQ(asked.size(), 1U);
    EXPECT_EQ(asked[0].tensor_class, TensorClass::linear_input);
    EXPECT_EQ(asked[0].dtype, Dtype::f32);
    EXPECT_EQ(asked[0].count, 1000);
    EXPECT_EQ(asked[0].size_bytes, 4096);
    EXPECT_EQ(asked[0].step, 3);
}

TEST_F(CodecChoiceTest, bytes_that_are_no_whole_number_of_elements_leave_as_they_are) {
    CodecChoice affine = choice("affine4");
    EXPECT_FALSE(encodes(affine, 4001));
    EXPECT_TRUE(asked.empty());
}

TEST_F(CodecChoiceTest, exact_leaves_out_what_loses_something_and_no_more) {
    CodecChoice affine = choice("affine4");
    CodecChoice lossless = choice("lossless");
    for (CodecChoice* const each : {&affine, &lossless}) {
        each->exact(true);
    }
    EXPECT_FALSE(encodes(affine));
    EXPECT_TRUE(encodes(lossless));
    affine.exact(false);
    EXPECT_TRUE(encodes(affine));
}

TEST_F(CodecChoiceTest, torchs_deterministic_algorithms_are_exact) {
    CodecChoice affine = choice("affine4");
    at::globalContext().setDeterministicAlgorithms(true, false);
    EXPECT_FALSE(encodes(affine));
    at::globalContext().setDeterministicAlgorithms(false, false);
    EXPECT_TRUE(encodes(affine));
}

}  // namespace
}  // namespace spillway
