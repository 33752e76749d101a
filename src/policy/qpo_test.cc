// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/qpo.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>

namespace spillway {
namespace {

/// Four saves of 100 bytes, one every 100 ns; backward takes twice as long as forward. With
/// rates of 1e9 a byte takes a nanosecond.
QpoPass even_pass(std::int64_t away_bytes) {
    QpoPass pass{.saves = {}, .forward_ns = 400, .backward_ns = 800};
    for (std::int64_t at = 100; at <= 400; at += 100) {
        pass.saves.push_back({at, 100, away_bytes});
    }
    return pass;
}

TEST(Qpo, few_bits_are_for_inputs_of_layers_alone) {
    EXPECT_EQ(qpo_codec(TensorClass::linear_input), "affine4:group=256,stochastic");
    EXPECT_EQ(qpo_codec(TensorClass::convolution_input), "affine4:group=256,stochastic");
    EXPECT_EQ(qpo_codec(TensorClass::norm_input), "affine8:group=256,stochastic");
    EXPECT_EQ(qpo_codec(TensorClass::activation_input), "affine8:group=256,stochastic");
    EXPECT_EQ(qpo_codec(TensorClass::relu_output), "sign");
    EXPECT_EQ(qpo_codec(TensorClass::mask), "mask");
    for (TensorClass const exact :
         {TensorClass::attention,
          TensorClass::statistics,
          TensorClass::index,
          TensorClass::other}) {
        EXPECT_EQ(qpo_codec(exact), "identity");
    }
}

TEST(Qpo, the_tail_is_what_cannot_be_out_and_back_in_time) {
    MoveRates const rates{.out = 1e9, .in = 1e9};
    // The last is out at 425 and back at 450, and backward begins at 400; the one before it is back
    // at 350, and is needed at 600.
    EXPECT_EQ(qpo_tail_begins(even_pass(25), rates), 300);
    // Four times as much on the link: out at 200, 300, 400, 500 and back 100 later, while needed
    // at 1000, 800, 600, 400.
    EXPECT_EQ(qpo_tail_begins(even_pass(100), rates), 300);
    // Out at 300, 500, 700: the third is back at 900, needed at 600.
    EXPECT_EQ(qpo_tail_begins(even_pass(200), rates), 200);
    // Half of that rate in alone: the second is back at 900, needed at 800.
    EXPECT_EQ(qpo_tail_begins(even_pass(200), {.out = 1e9, .in = 0.5e9}), 100);
}

TEST(Qpo, codecs_take_their_part_of_the_time) {
    // Encoding alone takes the forward twice, so the third is out at 725.
    MoveRates const slow{.out = 1e9, .in = 1e9, .encode = 0.5e9};
    EXPECT_EQ(qpo_tail_begins(even_pass(25), slow), 200);
    MoveRates const slow_back{.out = 1e9, .in = 1e9, .decode = 0.2e9};
    EXPECT_EQ(qpo_tail_begins(even_pass(25), slow_back), 200);
}

TEST(Qpo, without_rates_or_saves_there_is_no_tail) {
    EXPECT_EQ(qpo_tail_begins(even_pass(100), {}), kQpoNoTail);
    EXPECT_EQ(qpo_tail_begins(even_pass(100), {.out = 1e9}), kQpoNoTail);
    EXPECT_EQ(qpo_tail_begins({}, {.out = 1e9, .in = 1e9}), kQpoNoTail);
}

TEST(Qpo, what_is_needed_long_after_the_last_save_need_not_stay) {
    QpoPass pass = even_pass(25);
    pass.forward_ns = 1000;  // a head follows that saves nothing
    EXPECT_EQ(qpo_tail_begins(pass, {.out = 1e9, .in = 1e9}), kQpoNoTail);
}

TEST(Qpo, a_slower_part_never_makes_the_tail_shorter) {
    std::mt19937 random(5);
    auto const upto = [&](std::int64_t most) {
        return std::uniform_int_distribution<std::int64_t>(1, most)(random);
    };
    for (int round = 0; round < 2000; ++round) {
        QpoPass pass;
        for (std::int64_t i = upto(30); i > 0; --i) {
            std::int64_t const raw = upto(1000);
            pass.forward_ns += upto(1000);
            pass.saves.push_back({pass.forward_ns, raw, upto(raw)});
        }
        pass.backward_ns = upto(3 * pass.forward_ns);
        auto const rate = [&] { return 1e8 * static_cast<double>(upto(100)); };
        MoveRates const fast{rate(), rate(), rate(), rate()};
        std::int64_t const tail = qpo_tail_begins(pass, fast);
        for (double MoveRates::*const part :
             {&MoveRates::out, &MoveRates::in, &MoveRates::encode, &MoveRates::decode}) {
            MoveRates slow = fast;
            slow.*part /= 2;
            EXPECT_LE(qpo_tail_begins(pass, slow), tail) << "round " << round;
        }
    }
}

/// A training whose passes take `compute_ns` times as long as `even_pass`.
struct Training {
    /// Runs a pass; returns how many of its saves were kept.
    int pass(std::int64_t saves = 4, std::int64_t slowness = 1) {
        int kept = 0;
        qpo.forward_begins(now_ns);
        for (std::int64_t i = 0; i < saves; ++i) {
            now_ns += 100 * slowness;
            kept += qpo.keeps(100, 25, now_ns) ? 1 : 0;
        }
        qpo.backward_begins(now_ns);
        now_ns += 200 * saves * slowness;
        qpo.needs(now_ns);
        now_ns += 5000;  // an update, which is not reported
        return kept;
    }

    Qpo qpo;
    std::int64_t now_ns = 77;
};

TEST(Qpo, a_training_keeps_its_tail_after_what_the_first_passes_showed) {
    Training training;
    EXPECT_EQ(training.pass(), 0);
    EXPECT_EQ(training.pass(), 0) << "nothing moved, so no rate is known";
    training.qpo.set_rates({.out = 1e9, .in = 1e9});
    EXPECT_EQ(training.pass(), 1);
    EXPECT_EQ(training.pass(), 1);
    EXPECT_TRUE(training.qpo.is_measuring());
    EXPECT_EQ(training.pass(), 1);
    EXPECT_EQ(training.pass(), 1);
    EXPECT_FALSE(training.qpo.is_measuring());
    training.qpo.set_rates({.out = 1e5, .in = 1e5});
    EXPECT_EQ(training.pass(), 1) << "it is fixed";
    EXPECT_EQ(training.pass(), 1);
}

TEST(Qpo, the_warm_up_is_no_measure) {
    Training training;
    training.qpo.set_rates({.out = 1e9, .in = 1e9});
    training.pass(4, 1);
    EXPECT_EQ(training.qpo.tail_begins(), kQpoNoTail);
    training.pass(4, 100);  // which hides more
    training.pass(4, 100);
    EXPECT_EQ(training.qpo.tail_begins(), 300);
    EXPECT_EQ(training.pass(4, 1), 1);
    EXPECT_EQ(training.pass(4, 100), 1) << "of the fastest";
}

TEST(Qpo, passes_of_another_size_are_measured_anew) {
    Training training;
    training.qpo.set_rates({.out = 1e9, .in = 1e9});
    for (int i = 0; i < 6; ++i) {
        training.pass();
    }
    EXPECT_EQ(training.qpo.tail_begins(), 300);
    EXPECT_EQ(training.pass(8), 5) << "by what was measured last";
    EXPECT_EQ(training.pass(8), 0);
    EXPECT_EQ(training.pass(8), 1);
    EXPECT_EQ(training.qpo.tail_begins(), 700);
}

TEST(Qpo, a_forward_without_a_backward_counts_for_nothing) {
    Qpo qpo;
    qpo.set_rates({.out = 1e9, .in = 1e9});
    qpo.needs(3);
    qpo.backward_begins(4);
    EXPECT_FALSE(qpo.keeps(100, 100, 5)) << "nothing has begun";
    for (std::int64_t i = 0; i < 10; ++i) {
        qpo.forward_begins(1000 * i);
        EXPECT_FALSE(qpo.keeps(100, 25, 1000 * i + 100));
    }
    EXPECT_TRUE(qpo.is_measuring());
    EXPECT_EQ(qpo.tail_begins(), kQpoNoTail);
}

}  // namespace
}  // namespace spillway
