// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/trainer.h"

#include "train/bad_value.h"
#include "train/checkpoint.h"
#include "train/settings.h"
#include "train/test_support.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <vector>

namespace spillway::train {
namespace {

std::vector<float> losses_of(Trainer& trainer, std::int64_t from, std::int64_t to) {
    std::vector<float> losses;
    for (std::int64_t step = from; step < to; ++step) {
        losses.push_back(trainer.step(step));
    }
    return losses;
}

/// A run with everything that a tiny one needs.
struct TinyRun {
    explicit TinyRun(TrainOptions with) : options(std::move(with)) {}
    TrainOptions options;
    ModelShape shape = shape_of(options);
    Corpus corpus = small_corpus();
    Budget budget;
    Trainer trainer{options, shape, corpus, budget, at::kCPU};

    void save(std::string const& path, std::int64_t steps) {
        save_checkpoint(
            path,
            steps,
            {{"model", model_settings(shape)}, {"run", run_settings(options, shape, corpus)}},
            trainer.model(),
            trainer.optimizer(),
            budget
        );
    }
};

TEST(trainer, the_loss_falls) {
    TrainOptions options = tiny_options();
    options.learning_rate = 1e-2;
    TinyRun run(options);
    auto const losses = losses_of(run.trainer, 0, 12);
    EXPECT_LT(losses.back(), losses.front() - 0.5F);
}

TEST(trainer, two_runs_of_the_same_seed_are_equal_to_the_last_bit_and_of_others_are_not) {
    TinyRun first(tiny_options());
    TinyRun second(tiny_options());
    TrainOptions other = tiny_options();
    other.seed = 8;
    TinyRun third(other);
    auto const losses = losses_of(first.trainer, 0, 4);
    EXPECT_EQ(losses, losses_of(second.trainer, 0, 4));
    EXPECT_NE(losses, losses_of(third.trainer, 0, 4));
}

TEST(trainer, micro_batches_add_up) {
    TrainOptions options = tiny_options();
    options.accumulate = 3;
    TinyRun run(options);
    EXPECT_NEAR(run.trainer.step(0), std::log(256.0), 0.5);
}

TEST(trainer, bf16_trains_with_losses_near_those_of_fp32) {
    TrainOptions options = tiny_options();
    TinyRun full(options);
    options.precision = "bf16";
    TinyRun half(options);
    auto const wide = losses_of(full.trainer, 0, 3);
    auto const narrow = losses_of(half.trainer, 0, 3);
    EXPECT_NE(wide, narrow);
    EXPECT_NEAR(wide.back(), narrow.back(), 0.05);
}

struct Resumed : testing::TestWithParam<TrainOptions> {};

TEST_P(Resumed, run_gives_the_losses_and_weights_of_the_uninterrupted_one) {
    ScratchFolder const folder;
    TinyRun whole(GetParam());
    auto const expected = losses_of(whole.trainer, 0, 6);
    {
        TinyRun first(GetParam());
        losses_of(first.trainer, 0, 3);
        first.save(folder.file("ckpt"), 3);
    }
    TinyRun second(GetParam());
    SavedRun const saved(folder.file("ckpt"));
    ASSERT_EQ(saved.steps_done(), 3);
    saved.load(second.trainer.model(), second.trainer.optimizer(), second.budget);
    auto const rest = losses_of(second.trainer, 3, 6);
    EXPECT_EQ(rest, std::vector<float>(expected.begin() + 3, expected.end()));
    auto const weights = whole.trainer.model().parameters();
    auto const resumed = second.trainer.model().parameters();
    for (std::size_t at = 0; at < weights.size(); ++at) {
        EXPECT_TRUE(at::equal(weights[at], resumed[at])) << at;
    }
}

TrainOptions resumed_options(std::string style, double dropout, std::string precision) {
    TrainOptions options = tiny_options();
    options.style = std::move(style);
    options.dropout = dropout;
    options.precision = std::move(precision);
    options.accumulate = 2;
    return options;
}

INSTANTIATE_TEST_SUITE_P(
    trainer,
    Resumed,
    testing::Values(
        resumed_options("gpt2", 0.0, "fp32"),
        resumed_options("gpt2", 0.2, "fp32"),
        resumed_options("llama2", 0.2, "fp32"),
        resumed_options("gpt2", 0.0, "bf16")
    )
);

std::string trainer_refusal(std::string const& path) {
    try {
        SavedRun const saved(path);
    } catch (BadValue const& failure) {
        return failure.what();
    }
    return "accepted";
}

// In place: a file system may flush what is cut to nothing and written again.
void write_byte(std::string const& path, std::size_t at, char byte) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
}

TEST(checkpoint, every_damaged_byte_and_every_cut_is_refused) {
    ScratchFolder const folder;
    TrainOptions options = tiny_options();
    options.layers = 1;
    options.width = 4;
    TinyRun run(options);
    run.trainer.step(0);
    run.save(folder.file("ckpt"), 1);
    ASSERT_EQ(trainer_refusal(folder.file("ckpt")), "accepted");
    for (std::string const name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
        std::string const path = folder.file("ckpt/" + name);
        std::string const whole = read_text(path);
        std::size_t const stride = whole.size() > 4000 ? 13 : 1;  // data is one hash: a sample
        for (std::size_t at = 0; at < whole.size(); at += stride) {
            write_byte(path, at, static_cast<char>(whole[at] ^ 0x01));
            ASSERT_NE(trainer_refusal(folder.file("ckpt")), "accepted") << name << " byte " << at;
            write_byte(path, at, whole[at]);
        }
        // state.json is as good without its last newline
        for (std::size_t cut = 2; cut <= whole.size(); cut += stride) {
            std::filesystem::resize_file(path, whole.size() - cut);
            ASSERT_NE(trainer_refusal(folder.file("ckpt")), "accepted")
                << name << " without " << cut;
        }
        write_text(path, whole);
    }
    EXPECT_EQ(trainer_refusal(folder.file("ckpt")), "accepted");
}

TEST(checkpoint, the_refusal_names_the_flag_and_the_path_as_typed) {
    ScratchFolder const folder;
    EXPECT_EQ(
        trainer_refusal(folder.path() + "//"),
        "--resume " + folder.path() + "//: not a whole checkpoint: " + folder.path() +
            "///state.json: open: No such file or directory"
    );
}

TEST(checkpoint, tensors_of_another_model_are_refused) {
    ScratchFolder const folder;
    TinyRun run(tiny_options());
    run.trainer.step(0);
    run.save(folder.file("ckpt"), 1);
    TrainOptions wider = tiny_options();
    wider.width = 32;
    TinyRun other(wider);
    SavedRun const saved(folder.file("ckpt"));
    EXPECT_THROW(
        saved.load(other.trainer.model(), other.trainer.optimizer(), other.budget), BadValue
    );
}

}  // namespace
}  // namespace spillway::train
