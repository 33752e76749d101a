// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/codec_rule.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

Codec codec_of(CodecTable const& table, TensorClass tensor_class) {
    return table[static_cast<std::size_t>(tensor_class)];
}

CodecTable laid(std::string const& text) {
    Result<CodecTable> const table = with_codecs(table_of(*find_policy("qpo")), text);
    EXPECT_TRUE(table.ok()) << table.error().message();
    return *table;
}

std::string refusal(std::string const& text) {
    Result<CodecTable> const table = with_codecs(table_of(*find_policy("qpo")), text);
    return table.ok() ? "" : table.error().message();
}

SavedTensor floats(TensorClass tensor_class, std::int64_t count = 1024) {
    return {
        .tensor_class = tensor_class, .dtype = Dtype::f32, .count = count, .size_bytes = 4 * count};
}

TEST(CodecRule, the_table_of_qpo_loses_only_what_it_may) {
    CodecTable const table = table_of(*find_policy("qpo"));
    EXPECT_EQ(to_text(codec_of(table, TensorClass::linear_input)), "affine4:group=256,stochastic");
    EXPECT_EQ(codec_of(table, TensorClass::mask).kind, CodecKind::mask);
    EXPECT_EQ(codec_of(table, TensorClass::attention), Codec{});
    EXPECT_EQ(first_lossy(table), TensorClass::linear_input);
    EXPECT_EQ(first_lossy(CodecTable{}), std::nullopt);
}

TEST(CodecRule, a_codec_alone_is_for_those_that_may_lose_unnamed) {
    CodecTable const table = laid("affine4:group=64,absmax");
    for (TensorClass const each :
         {TensorClass::linear_input,
          TensorClass::convolution_input,
          TensorClass::norm_input,
          TensorClass::activation_input}) {
        EXPECT_EQ(to_text(codec_of(table, each)), "affine4:group=64,absmax");
    }
    EXPECT_EQ(codec_of(table, TensorClass::relu_output).kind, CodecKind::sign);
    EXPECT_EQ(codec_of(table, TensorClass::attention), Codec{});
    EXPECT_EQ(codec_of(table, TensorClass::other), Codec{});
}

TEST(CodecRule, items_are_laid_over_one_another) {
    CodecTable const table =
        laid("nf4,norm_input=affine8:group=64,stochastic,attention=fp8_e4m3,linear_input=identity");
    EXPECT_EQ(codec_of(table, TensorClass::activation_input).kind, CodecKind::nf4);
    EXPECT_EQ(to_text(codec_of(table, TensorClass::norm_input)), "affine8:group=64,stochastic");
    EXPECT_EQ(codec_of(table, TensorClass::attention).kind, CodecKind::fp8_e4m3);
    EXPECT_EQ(codec_of(table, TensorClass::linear_input), Codec{});
    CodecTable const exact = laid("all=lossless");
    EXPECT_EQ(first_lossy(exact), std::nullopt);
    EXPECT_EQ(codec_of(exact, TensorClass::other).kind, CodecKind::lossless);
    EXPECT_EQ(first_lossy(laid("all=identity,attention=affine8")), TensorClass::attention);
}

TEST(CodecRule, what_cannot_be_is_named) {
    EXPECT_NE(refusal("affine7").find("affine7"), std::string::npos);
    EXPECT_NE(refusal("affine4:group=100").find("group"), std::string::npos);
    EXPECT_NE(refusal("").find("codec"), std::string::npos);
    EXPECT_NE(refusal("affine4,").find("affine4,"), std::string::npos);
    EXPECT_NE(refusal("weights=affine4").find("weights"), std::string::npos);
    EXPECT_NE(refusal("norm_input=").find("codec"), std::string::npos);
    EXPECT_NE(refusal("all=affine8").find("exact"), std::string::npos);
    EXPECT_NE(refusal("index=affine8").find("exact"), std::string::npos);
    EXPECT_EQ(refusal("index=lossless"), "");
    EXPECT_NE(refusal("sign").find("relu_output"), std::string::npos);
    EXPECT_NE(refusal("norm_input=sign").find("relu_output"), std::string::npos);
    EXPECT_EQ(refusal("relu_output=sign"), "");
    EXPECT_NE(refusal("mask").find("mask=mask"), std::string::npos);
    EXPECT_NE(refusal("mask=mask,mask=lossless").find("mask is there twice"), std::string::npos);
}

TEST(CodecRule, tensors_leave_by_their_class_where_the_codec_takes_their_type) {
    CodecTable const table = table_of(*find_policy("qpo"));
    SavedAs const linear = leaves_by(table, floats(TensorClass::linear_input));
    EXPECT_EQ(
        linear.encoding, (Encoding{codec_of(table, TensorClass::linear_input), Dtype::f32, 1024})
    );
    EXPECT_EQ(linear.tensor_class, TensorClass::linear_input);
    EXPECT_EQ(linear.advice, Advice::when_asked);
    EXPECT_FALSE(leaves_by(table, floats(TensorClass::other)).encoding);
    SavedTensor bytes = floats(TensorClass::linear_input);
    bytes.dtype = Dtype::u8;
    EXPECT_FALSE(leaves_by(table, bytes).encoding) << "doubles, say";
    bytes.dtype.reset();
    EXPECT_FALSE(leaves_by(table, bytes).encoding);
    SavedTensor part = floats(TensorClass::linear_input);
    part.is_whole = false;
    EXPECT_FALSE(leaves_by(table, part).encoding) << "others' numbers in its groups";
    EXPECT_TRUE(leaves_by(laid("linear_input=lossless"), part).encoding);
    part.tensor_class = TensorClass::attention;
    EXPECT_TRUE(leaves_by(laid("attention=affine8"), part).encoding) << "named";
    bytes = floats(TensorClass::mask);
    bytes.dtype = Dtype::u8;
    EXPECT_TRUE(leaves_by(table, bytes).encoding);
    EXPECT_FALSE(leaves_by(table, floats(TensorClass::linear_input, 0)).encoding);
}

TEST(CodecRule, what_a_plan_knows_leaves_by_its_codec) {
    Slot const coded{"aten::addmm", 0, 0};
    Slot const raw{"aten::addmm", 0, 1};
    Slot const unknown{"aten::addmm", 0, 2};
    Slot const sign{"aten::relu", 0, 0};
    Plan plan;
    plan.fates[coded] = {.kind = FateKind::move, .pool = Pool::host, .codec = "affine8"};
    plan.fates[raw] = {.kind = FateKind::move, .pool = Pool::host};
    plan.fates[sign] = {.kind = FateKind::move, .pool = Pool::host, .codec = "sign"};
    PlannedRule rule(table_of(*find_policy("qpo")), {}, plan);
    auto const codec_at = [&](Slot const* slot, TensorClass of = TensorClass::linear_input) {
        SavedTensor tensor = floats(of);
        tensor.slot = slot;
        SavedAs const as = rule.of(tensor);
        return as.encoding ? to_text(as.encoding->codec) : "raw";
    };
    EXPECT_EQ(codec_at(&coded), "affine8");
    EXPECT_EQ(codec_at(&raw), "raw") << "whatever the table says";
    EXPECT_EQ(codec_at(&unknown), "affine4:group=256,stochastic") << "by the table";
    EXPECT_EQ(codec_at(nullptr), "affine4:group=256,stochastic");
    EXPECT_EQ(codec_at(&sign, TensorClass::relu_output), "sign");
    EXPECT_EQ(codec_at(&sign), "raw") << "in this step it is no ReLU's";
    SavedTensor integers = floats(TensorClass::index);
    integers.dtype = Dtype::u8;
    integers.slot = &coded;
    EXPECT_FALSE(rule.of(integers).encoding);
    EXPECT_EQ(codecs_of(plan)->size(), 2U);
    plan.fates[unknown].codec = "mp3";
    EXPECT_FALSE(codecs_of(plan).ok());
}

TEST(CodecRule, qpo_sends_a_forward_away_at_once_and_keeps_its_tail) {
    std::int64_t now_ns = 0;
    Report report;
    PolicyRule rule(
        table_of(*find_policy("qpo")),
        {[&] { return now_ns; }, [&] { return report; }},
        find_policy("qpo")->make_rule()
    );
    SavedTensor const tensor = floats(TensorClass::linear_input, 1 << 16);
    auto const pass = [&] {
        int kept = 0;
        rule.phase_begins(Phase::forward);
        for (int i = 0; i < 10; ++i) {
            now_ns += 1'000'000;
            SavedAs const as = rule.of(tensor);
            kept += as.advice == Advice::last_resort ? 1 : 0;
            EXPECT_TRUE(as.advice == Advice::last_resort || as.advice == Advice::at_once);
            EXPECT_TRUE(as.encoding);
        }
        rule.phase_begins(Phase::backward);
        SavedTensor late = tensor;
        late.phase = Phase::backward;
        EXPECT_EQ(rule.of(late).advice, Advice::when_asked);
        now_ns += 20'000'000;
        rule.backward_needs();
        rule.phase_begins(Phase::update);
        now_ns += 50'000'000;
        return kept;
    };
    EXPECT_EQ(pass(), 0);
    EXPECT_EQ(pass(), 0);
    report.stored_bytes = 1'000'000;  // about 30 us a value
    report.store_busy_ns = 1'000'000;
    report.loaded_bytes = 1'000'000;
    report.load_busy_ns = 1'000'000;
    EXPECT_EQ(pass(), 1) << "the last has no time to be out and back";
}

TEST(CodecRule, a_lossless_codec_that_shrinks_too_little_or_is_too_slow_is_given_up) {
    struct Case {
        std::int64_t encoded_bytes, encode_ns, values, link_ns;
        bool stays;
    };
    constexpr std::int64_t kRaw = 1'000'000;
    for (Case const& one :
         {Case{899'000, 1'000'000, 4, 2'000'000, true},    // 0.9 of raw, twice the link's rate
          Case{901'000, 1'000'000, 4, 2'000'000, false},   // shrinks too little
          Case{899'000, 2'100'000, 4, 2'000'000, false},   // slower than the link
          Case{1'000'000, 9'000'000, 3, 2'000'000, true},  // too few were seen
          Case{899'000, 9'000'000, 4, 0, true}}) {         // the link is not known
        Report report;
        report.stored_bytes = one.link_ns > 0 ? kRaw : 0;
        report.store_busy_ns = one.link_ns;
        CodecReport& row = report.codecs.emplace_back();
        row.tensor_class = "norm_input";
        row.codec = "lossless";
        row.values = one.values;
        row.raw_bytes = kRaw;
        row.encoded_bytes = one.encoded_bytes;
        row.encode_ns = one.encode_ns;
        CodecRule rule(
            laid("all=lossless"), {[] { return std::int64_t{0}; }, [&] { return report; }}
        );
        EXPECT_TRUE(rule.of(floats(TensorClass::norm_input)).encoding);
        rule.phase_begins(Phase::backward);
        EXPECT_EQ(rule.of(floats(TensorClass::norm_input)).encoding.has_value(), one.stays)
            << one.encoded_bytes << " " << one.encode_ns << " " << one.values << " " << one.link_ns;
        EXPECT_TRUE(rule.of(floats(TensorClass::linear_input)).encoding) << "another class";
    }
}

TEST(CodecRule, a_lossless_codec_is_judged_however_late_the_first_block_leaves) {
    Report report;
    CodecRule rule(laid("all=lossless"), {[] { return std::int64_t{0}; }, [&] { return report; }});
    for (int phase = 0; phase < 1000; ++phase) {
        rule.phase_begins(Phase::forward);
    }
    CodecReport& row = report.codecs.emplace_back();
    row.tensor_class = "norm_input";
    row.codec = "lossless";
    row.values = 4;
    row.raw_bytes = row.encoded_bytes = 1'000'000;
    for (int phase = 0; phase < 100; ++phase) {
        rule.phase_begins(Phase::forward);
    }
    EXPECT_FALSE(rule.of(floats(TensorClass::norm_input)).encoding);
    EXPECT_TRUE(rule.of(floats(TensorClass::linear_input)).encoding) << "another class";
}

TEST(CodecRule, rates_are_bytes_over_the_time_that_they_took) {
    Report report;
    EXPECT_EQ(rates_of(report), MoveRates{});
    report.stored_bytes = 3000;
    report.store_busy_ns = 1000;
    report.loaded_bytes = 500;
    report.load_busy_ns = 1000;
    report.copy_out_bytes = 8000;  // the tier behind it is slower
    report.copy_out_ns = 1000;
    report.copy_in_bytes = 400;  // slower than the tier
    report.copy_in_ns = 1000;
    report.codecs.resize(2);
    report.codecs[0].raw_bytes = 1000;
    report.codecs[0].encode_ns = 100;
    report.codecs[1].raw_bytes = 3000;
    report.codecs[1].encode_ns = 300;
    report.codecs[1].decoded_bytes = 10;
    report.codecs[1].decode_ns = 10;
    EXPECT_EQ(rates_of(report), (MoveRates{3e9, 0.4e9, 10e9, 1e9}));
}

}  // namespace
}  // namespace spillway
