// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Sessions on a device that encodes and decodes itself, on streams beside those of compute and of
// copies. What is saved here holds all of 0 to 255 in each group, which eight bits give back
// exactly, so that every gradient is plain training's to the last bit.

#include "late/coding_device.h"
#include "late/late_session.h"
#include "late/test_support.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace spillway {
namespace {

constexpr bool kOwnThread = true;
constexpr int kProducts = 24;

std::int64_t limit() {
    return values(12) + kCodedBytes;
}

SessionOptions coded_options(char const* codecs = "linear_input=affine8:group=256") {
    SessionOptions options = small_options(limit());
    options.lossy = true;
    options.codecs = codecs;
    return options;
}

std::unique_ptr<FaultyTier> memory(std::vector<Fault> faults = {}) {
    return std::make_unique<FaultyTier>(
        std::make_unique<MemoryTier>(values(1024)), std::move(faults)
    );
}

/// 0 to 255 in another order for each `i`, again and again.
Tensor levels(std::int64_t i) {
    Tensor const counted =
        at::arange(rows() * rows(), at::TensorOptions().dtype(at::kFloat)).to(here());
    return at::remainder(counted * static_cast<double>(2 * i + 1) + static_cast<double>(i), 256)
        .view({rows(), rows()});
}

/// Saves `kProducts` tensors of levels and little else; the last step may have a NaN in one.
Tensor products(Tensor const& weight, bool with_nan = false) {
    Tensor sum = weight * 0;
    for (std::int64_t i = 0; i < kProducts; ++i) {
        Tensor factor = levels(i);
        if (with_nan && i == 3) {
            factor = at::where(factor == 7, std::numeric_limits<double>::quiet_NaN(), factor);
        }
        sum = sum + at::linear(factor, weight);
    }
    return sum.sum();
}

/// What `steps` leave in the gradient.
Tensor gradient(std::shared_ptr<TorchSession> const& session, int steps, bool with_nan = false) {
    if (session != nullptr) {
        allocate_from(session, false);
    }
    Tensor weight = leaf(11);
    if (session != nullptr) {
        session->own({weight});
    }
    for (int step = 0; step < steps; ++step) {
        if (session != nullptr) {
            session->loop().begin_step(step);
            recorded(session, [&] { return products(weight, with_nan); }).backward();
        } else {
            products(weight, with_nan).backward();
        }
    }
    return weight.grad().cpu();
}

Tensor plain_gradient_of_products(int steps, bool with_nan = false) {
    c10::Device const device = std::exchange(here(), c10::Device(c10::kCPU));
    Tensor const plain = gradient(nullptr, steps, with_nan);
    here() = device;
    return plain;
}

CodecReport only_codec(Report const& report) {
    EXPECT_EQ(report.codecs.size(), 1U);
    return report.codecs.empty() ? CodecReport{} : report.codecs.front();
}

void expect_plain_bits(CodedRig const& coded, int steps) {
    EXPECT_TRUE(at::equal(gradient(coded.session, steps), plain_gradient_of_products(steps)));
    Report const report = coded.session->report();
    CodecReport const codec = only_codec(report);
    EXPECT_GT(codec.values, steps * kProducts / 4);
    EXPECT_EQ(codec.went_raw, 0);
    EXPECT_LT(codec.encoded_bytes, codec.raw_bytes / 3);
    EXPECT_GT(codec.decoded_bytes, 0);
    EXPECT_EQ(codec.error_squares, 0);
    EXPECT_GT(codec.value_squares, 0);
    EXPECT_LE(report.device_peak_bytes, limit());
    EXPECT_EQ(report.copy_out_bytes, codec.encoded_bytes);
}

TEST(Coded, steps_over_pinned_memory_have_the_plain_bits) {
    expect_plain_bits(open_coded(coded_options()), 3);
}

TEST(Coded, steps_over_a_tier_behind_staging_have_the_plain_bits) {
    expect_plain_bits(open_coded(coded_options(), memory()), 3);
}

TEST(Coded, steps_with_threads_of_the_movers_have_the_plain_bits) {
    expect_plain_bits(open_coded(coded_options(), memory(), kOwnThread), 2);
    expect_plain_bits(open_coded(coded_options(), nullptr, kOwnThread), 2);
}

/// The runtime's suite runs on such sessions, too (suite_torch_test.cc).
TEST(Coded, values_that_leave_by_ticket_have_the_plain_bits) {
    for (bool const is_staged : {false, true}) {
        CodedRig const coded = open_by_ticket(small_options(), is_staged ? memory() : nullptr);
        expect_steps_like_plain(coded.session, 5, 2);
        Report const report = coded.session->report();
        ASSERT_FALSE(report.codecs.empty());
        EXPECT_GT(report.codecs.front().values, 20);
        EXPECT_GT(report.codecs.front().decoded_bytes, values(20));
    }
}

TEST(Coded, what_a_codec_refuses_leaves_as_it_is) {
    CodedRig const coded = open_coded(coded_options());
    Tensor const with_nan = gradient(coded.session, 2, true);
    EXPECT_TRUE(at::allclose(with_nan, plain_gradient_of_products(2, true), 0, 0, true));
    EXPECT_GT(only_codec(coded.session->report()).went_raw, 0);
}

TEST(Coded, refusing_what_is_not_finite_stops_the_step) {
    SessionOptions options = coded_options();
    options.nonfinite = "refuse";
    CodedRig const coded = open_coded(options);
    try {
        (void)gradient(coded.session, 1, true);
        ADD_FAILURE() << "a NaN went through";
    } catch (c10::Error const& error) {
        std::string const words = error.what_without_backtrace();
        EXPECT_NE(words.find("NaN or infinite"), std::string::npos) << words;
        EXPECT_NE(words.find("affine8"), std::string::npos) << words;
    }
    EXPECT_TRUE(at::equal(gradient(coded.session, 1), plain_gradient_of_products(1)));
}

TEST(Coded, a_byte_that_changes_on_the_tier_stops_the_step) {
    CodedRig const coded = open_coded(
        coded_options(),
        memory(
            {{.kind = Fault::Kind::garble,
              .way = Direction::load,
              .first = 2,
              .count = 100,
              .at_byte = 200}}
        )
    );
    try {
        (void)gradient(coded.session, 1);
        ADD_FAILURE() << "a changed byte went through";
    } catch (c10::Error const& error) {
        std::string const words = error.what_without_backtrace();
        EXPECT_NE(words.find("cannot be decoded"), std::string::npos) << words;
        EXPECT_NE(words.find("checksum"), std::string::npos) << words;
    }
}

TEST(Coded, a_device_that_refuses_to_encode_loses_nothing) {
    CodedRig const coded = open_coded(coded_options());
    coded.device->refuses_encodes = true;
    EXPECT_TRUE(at::equal(gradient(coded.session, 2), plain_gradient_of_products(2)));
    EXPECT_TRUE(coded.session->report().codecs.empty());
    EXPECT_GT(coded.session->report().stored_bytes, 0);
}

TEST(Coded, a_copy_that_is_refused_half_way_loses_nothing) {
    for (std::int64_t const first :
         {0, 1, 2, 5}) {  // of a block a copy of codes and one of samples
        CodedRig const coded = open_coded(coded_options());
        coded.device->copies_to_refusal = first;
        EXPECT_TRUE(at::equal(gradient(coded.session, 2), plain_gradient_of_products(2))) << first;
        EXPECT_GT(coded.session->report().stored_bytes, 0);
    }
}

TEST(Coded, a_device_that_refuses_to_decode_stops_the_step) {
    CodedRig const coded = open_coded(coded_options());
    coded.device->refuses_decodes = true;
    try {
        (void)gradient(coded.session, 1);
        ADD_FAILURE() << "nothing was decoded, and nobody was told";
    } catch (c10::Error const& error) {
        std::string const words = error.what_without_backtrace();
        EXPECT_NE(words.find("no kernel today"), std::string::npos) << words;
    }
    coded.device->refuses_decodes = false;
    EXPECT_TRUE(at::equal(gradient(coded.session, 1), plain_gradient_of_products(1)));
}

TEST(Coded, closing_waits_for_what_is_being_encoded) {
    for (bool const own_thread : {false, true}) {
        CodedRig coded = open_coded(coded_options(), memory(), own_thread);
        allocate_from(coded.session, false);
        Tensor weight = leaf(11);
        coded.session->own({weight});
        Tensor sum = recorded(coded.session, [&] { return products(weight); });
        if (!own_thread) {  // that may be done
            EXPECT_GT(coded.session->loop().ledger().leaving_bytes, 0) << "nothing leaves";
        }
        coded = {};
        sum.reset();
    }
}

TEST(Coded, qpo_trains_nearly_as_plain) {
    SessionOptions options = coded_options("");
    options.policy = "qpo";
    options.device_budget_bytes = values(20) + kCodedBytes;
    CodedRig const coded = open_coded(options);
    allocate_from(coded.session, false);
    auto const train = [](std::shared_ptr<TorchSession> const& session) {
        Tensor weight = leaf(5);
        if (session != nullptr) {
            session->own({weight});
        }
        auto const forward = [&] {
            Tensor x = weight * 1;
            for (int i = 0; i < 12; ++i) {
                x = at::gelu(at::linear(x, weight) * 0.1);
            }
            return x.square().sum();
        };
        for (int step = 0; step < 2; ++step) {
            (session == nullptr ? forward() : recorded(session, forward)).backward();
        }
        return weight.grad().cpu();
    };
    Tensor const lossy = train(coded.session);
    here() = c10::Device(c10::kCPU);
    Tensor const plain = train(nullptr);
    here() = suite().device;
    EXPECT_LT((lossy - plain).norm().item<double>(), 0.1 * plain.norm().item<double>());
    Report const report = coded.session->report();
    ASSERT_FALSE(report.codecs.empty());
    for (CodecReport const& codec : report.codecs) {
        EXPECT_LT(codec.relative_l2_error(), 0.2) << codec.tensor_class;
        EXPECT_GT(codec.decoded_bytes, 0) << codec.tensor_class;
    }
}

TEST(Coded, what_has_no_kernel_is_refused_by_name) {
    for (auto const& [codecs, words] :
         {std::pair{"all=lossless", "lossless"},
          std::pair{"attention=identity,all=lossless", "lossless"}}) {
        try {
            (void)open_coded(coded_options(codecs));
            ADD_FAILURE() << codecs;
        } catch (BadOption const& refused) {
            EXPECT_EQ(refused.fault().option, "codecs");
            EXPECT_NE(std::string(refused.what()).find(words), std::string::npos) << refused.what();
        }
    }
    SessionOptions qpo = coded_options("");
    qpo.policy = "qpo";
    try {
        (void)open_session(qpo);  // the late accelerator alone has no kernels
        ADD_FAILURE() << "nothing was refused";
    } catch (BadOption const& refused) {
        EXPECT_EQ(refused.fault().option, "policy");
    }
}

}  // namespace
}  // namespace spillway
