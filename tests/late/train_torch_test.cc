// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The models, loop and checkpoints of `spillway train` on the late accelerator: bit for bit as on
// the CPU, whatever the schedule. Attention takes its plain form on both, as torch has no other one
// for a backend of one's own.

#include "late/test_support.h"
#include "train/bad_value.h"
#include "train/checkpoint.h"
#include "train/device.h"
#include "train/settings.h"
#include "train/test_support.h"
#include "train/trainer.h"
#include "train/warm_up.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace late {
namespace {

namespace train = spillway::train;

using spillway::TrainOptions;

constexpr std::int64_t kSteps = 4;

/// A run with everything that a tiny one needs.
struct TinyRun {
    TinyRun(TrainOptions with, at::Device device)
        : options(std::move(with)), trainer(options, shape, corpus, budget, device) {}

    std::vector<float> losses(std::int64_t from, std::int64_t to) {
        std::vector<float> losses;
        for (std::int64_t step = from; step < to; ++step) {
            losses.push_back(trainer.step(step));
        }
        return losses;
    }

    void save(std::string const& path, std::int64_t steps) {
        nlohmann::json const settings{
            {"model", model_settings(shape)}, {"run", run_settings(options, shape, corpus)}};
        save_checkpoint(path, steps, settings, trainer.model(), trainer.optimizer(), budget);
    }

    [[nodiscard]] std::vector<at::Tensor> weights() {
        std::vector<at::Tensor> weights;
        for (at::Tensor const& parameter : trainer.model().parameters()) {
            weights.push_back(parameter.detach().cpu());
        }
        return weights;
    }

    TrainOptions options;
    train::ModelShape shape = train::shape_of(options);
    train::Corpus corpus = train::small_corpus();
    train::Budget budget;
    train::Trainer trainer;
};

class TrainOnLate : public LateTest, public testing::WithParamInterface<std::string> {
  protected:
    TrainOnLate() {
        at::globalContext().setSDPUseFlash(false);
        at::globalContext().setSDPUseMemEfficient(false);
    }
    ~TrainOnLate() override {
        at::globalContext().setSDPUseFlash(true);
        at::globalContext().setSDPUseMemEfficient(true);
    }

    static TrainOptions options() {
        TrainOptions options = train::tiny_options();
        options.style = GetParam();
        options.accumulate = 2;
        return options;
    }

    static void expect_equal(
        std::vector<at::Tensor> const& one, std::vector<at::Tensor> const& other
    ) {
        ASSERT_EQ(one.size(), other.size());
        for (std::size_t at = 0; at < one.size(); ++at) {
            EXPECT_TRUE(at::equal(one[at], other[at])) << at;
        }
    }

    static void expect_clean() {
        EXPECT_EQ(all_reports(), "");
        EXPECT_TRUE(damage().empty());
    }
};

TEST_P(TrainOnLate, trains_as_on_the_cpu_whatever_the_schedule) {
    TinyRun on_cpu(options(), at::kCPU);
    auto const expected = on_cpu.losses(0, kSteps);
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        configure({.seed = seed});
        TinyRun on_late(options(), device(1));
        EXPECT_EQ(on_late.losses(0, kSteps), expected) << "seed " << seed;
        expect_equal(on_late.weights(), on_cpu.weights());
        expect_clean();
    }
    EXPECT_EQ(stats().devices[0].peak_bytes, 0);
    EXPECT_GT(stats().devices[1].peak_bytes, 0);
}

TEST_P(TrainOnLate, first_weights_and_tables_are_the_cpus) {
    TinyRun on_cpu(options(), at::kCPU);
    TinyRun on_late(options(), device());
    expect_equal(on_late.weights(), on_cpu.weights());
    auto const tables = on_late.trainer.model().buffers();
    auto const expected = on_cpu.trainer.model().buffers();
    ASSERT_EQ(tables.size(), expected.size());
    for (std::size_t at = 0; at < tables.size(); ++at) {
        EXPECT_EQ(tables[at].device(), device());
        EXPECT_TRUE(at::equal(tables[at].cpu(), expected[at])) << at;
    }
}

TEST_P(TrainOnLate, dropout_needs_no_saved_state_here_either) {
    TrainOptions with = options();
    with.dropout = 0.2;
    TinyRun whole(with, device());
    auto const expected = whole.losses(0, kSteps);
    TinyRun again(with, device());
    (void)at::rand({5}, on_late());
    EXPECT_EQ(again.losses(0, kSteps), expected);
    with.dropout = 0.0;
    EXPECT_NE(TinyRun(with, device()).losses(0, kSteps), expected);
    expect_clean();
}

TEST_P(TrainOnLate, a_checkpoint_of_either_device_goes_on_on_either) {
    train::ScratchFolder const folder;
    TinyRun whole(options(), at::kCPU);
    auto const expected = whole.losses(0, kSteps);
    for (at::Device const first : {device(), at::Device(at::kCPU)}) {
        std::string const path = folder.file(first.is_cpu() ? "cpu" : "late");
        {
            TinyRun run(options(), first);
            run.losses(0, 2);
            run.save(path, 2);
        }
        for (at::Device const second : {device(), at::Device(at::kCPU)}) {
            TinyRun run(options(), second);
            train::SavedRun(path).load(run.trainer.model(), run.trainer.optimizer(), run.budget);
            EXPECT_EQ(run.losses(2, kSteps), std::vector(expected.begin() + 2, expected.end()));
            expect_equal(run.weights(), whole.weights());
        }
    }
    for (std::string const name : {"model.safetensors", "optimizer.safetensors"}) {
        auto const written = [&](std::string const& device) {
            return train::read_text(folder.file(device + "/" + name));
        };
        EXPECT_TRUE(written("late") == written("cpu")) << name;  // too long to be shown
    }
    expect_clean();
}

TEST_P(TrainOnLate, warming_up_leaves_nothing_behind) {
    auto const style = train::shape_of(options()).style;
    train::warm_up(style, "fp32", device());
    EXPECT_EQ(stats().devices[0].live_blocks, 0);
    expect_clean();
}

TEST_F(LateTest, the_allocators_books_are_read_and_begun_anew) {
    at::empty({1000}, on_late(1));
    at::Tensor const kept = at::empty({100}, on_late(1));
    auto const memory = train::device_memory(device(1));
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->allocated_peak_bytes, rounded(4000));
    train::reset_device_memory(device(1));
    EXPECT_EQ(train::device_memory(device(1))->allocated_peak_bytes, rounded(400));
    EXPECT_FALSE(train::device_memory(at::Device(at::kCPU)));
}

INSTANTIATE_TEST_SUITE_P(train, TrainOnLate, testing::Values("gpt2", "llama2"));

}  // namespace
}  // namespace late
