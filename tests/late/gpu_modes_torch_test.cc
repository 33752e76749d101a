// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the GPU benchmark compares Spillway with, on streams that run late: it must train right, or
// the comparison is worth nothing. Its engine is not installed here: other tests have their own.

#include "bench/gpu/measured.h"
#include "late/test_support.h"
#include "train/device.h"
#include "train/test_support.h"
#include "train/trainer.h"

#include <cmath>
#include <string>
#include <vector>

namespace late {
namespace {

using spillway::bench::HostHook;
using spillway::bench::Measured;
using spillway::bench::Mode;
using spillway::bench::MovedBytes;
namespace train = spillway::train;

struct Outcome {
    std::vector<float> losses;
    spillway::bench::Gradients gradients;
    std::vector<double> seconds;  ///< of the phases of the last step

    bool operator==(Outcome const& other) const {
        return losses == other.losses && gradients.hash == other.gradients.hash &&
               gradients.norms == other.gradients.norms;
    }
};

Outcome trained(Mode mode, std::string const& style, at::Device device) {
    spillway::TrainOptions options = train::tiny_options();
    options.style = style;
    train::ModelShape const shape = train::shape_of(options);
    train::Corpus const corpus = train::small_corpus();
    Measured budget(mode, device, {});
    train::Trainer trainer(options, shape, corpus, budget, device);
    if (mode == Mode::checkpoint) {
        trainer.model().run_blocks_by([](train::RunBlock const& block, at::Tensor const& x) {
            auto const again = c10::make_intrusive<spillway::bench::BlockToRun>(block, false);
            return spillway::bench::Recomputed::apply(x, again);
        });
    }
    Outcome outcome;
    for (std::int64_t step = 0; step < 3; ++step) {
        (void)budget.take_moments();
        if (step == 2) {
            budget.keep_gradients(trainer.model().parameters());
        }
        outcome.losses.push_back(trainer.step(step));
    }
    auto moments = budget.take_moments();
    moments.emplace_back(device);
    train::synchronize(device);
    for (std::size_t at = 0; at + 1 < moments.size(); ++at) {
        outcome.seconds.push_back(moments[at].seconds_until(moments[at + 1]));
    }
    outcome.gradients = budget.gradients();
    return outcome;
}

class GpuModes : public LateTest, public testing::WithParamInterface<std::string> {};

TEST_P(GpuModes, blocks_made_again_give_the_gradients_of_plain) {
    Outcome const plain = trained(Mode::plain, GetParam(), device());
    EXPECT_NE(plain.gradients.hash, 0U);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        configure({.seed = seed});
        EXPECT_TRUE(trained(Mode::checkpoint, GetParam(), device()) == plain) << seed;
        EXPECT_TRUE(trained(Mode::plain, GetParam(), device()) == plain) << seed;
        EXPECT_EQ(all_reports(), "") << seed;
    }
}

INSTANTIATE_TEST_SUITE_P(gpu_modes, GpuModes, testing::Values("gpt2", "llama2"));

TEST_F(LateTest, a_phase_lasts_as_long_as_the_device_is_at_it) {
    auto const a_microsecond = [](std::string_view, std::int64_t) { return std::int64_t{1000}; };
    configure({.mode = late::Mode::virtual_time, .duration = a_microsecond});
    Outcome const outcome = trained(Mode::plain, "gpt2", device());
    ASSERT_EQ(outcome.seconds.size(), 3U);
    for (double const seconds : outcome.seconds) {
        EXPECT_GT(seconds, 50e-6);
        EXPECT_LT(seconds, 0.1);
    }
}

TEST_F(LateTest, a_tensor_saved_on_the_host_comes_back_as_it_was) {
    MovedBytes moved;
    at::Tensor const saved = at::arange(6, on_late().dtype(at::kFloat)).view({2, 3}).t();
    HostHook hook(moved);
    hook.call_pack_hook(saved);
    at::Tensor const back = hook.call_unpack_hook();
    EXPECT_EQ(back.device(), device());
    EXPECT_TRUE(at::equal(back.cpu(), saved.cpu()));
    EXPECT_EQ(moved.out, 24);
    EXPECT_EQ(moved.in, 24);
    EXPECT_EQ(all_reports(), "");
}

TEST_F(LateTest, the_hash_of_gradients_sees_every_bit_and_every_place) {
    auto const hash = [](std::vector<float> values) {
        return spillway::bench::hash_of(at::tensor(values).to(device()));
    };
    EXPECT_EQ(hash({1, 2, 3}), hash({1, 2, 3}));
    EXPECT_NE(hash({1, 2, 3}), hash({1, 3, 2}));
    EXPECT_NE(hash({1, 2, 3}), hash({1, 2, std::nextafter(3.0F, 4.0F)}));
    EXPECT_NE(hash({1, 2, 0.0F}), hash({1, 2, -0.0F}));
}

}  // namespace
}  // namespace late
