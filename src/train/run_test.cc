// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/run.h"

#include "spillway/session_error.h"
#include "train/test_support.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace spillway::train {
namespace {

/// Fails when the first backward begins.
class FailingBudget : public Budget {
  public:
    explicit FailingBudget(std::function<void()> fail) : fail_(std::move(fail)) {}
    void phase(Phase phase, std::int64_t) override {
        if (phase == Phase::backward) {
            fail_();
        }
    }

  private:
    std::function<void()> fail_;
};

/// The error of the results of a run in which `fail` throws, under a budget of so many bytes.
std::string error_of(std::function<void()> fail, std::int64_t budget_bytes = 0) {
    ScratchFolder const folder;
    write_text(folder.file("text"), std::string(4096, 'a'));
    TrainOptions options = tiny_options();
    options.data = folder.file("text");
    options.json = folder.file("results.json");
    options.session.device_budget_bytes = budget_bytes;
    options.session.host_budget_bytes = budget_bytes;
    FailingBudget budget(std::move(fail));
    EXPECT_NE(run_training(options, budget), 0);
    return nlohmann::json::parse(read_text(options.json)).at("error").get<std::string>();
}

TEST(run, an_error_is_given_its_place_whatever_its_words_begin_with) {
    EXPECT_EQ(
        error_of([] { throw std::runtime_error("step aside"); }), "step 1, backward: step aside"
    );
    EXPECT_EQ(
        error_of([] { throw std::runtime_error("before step 2 it failed"); }),
        "step 1, backward: before step 2 it failed"
    );
}

TEST(run, a_session_s_error_has_its_place_in_its_words) {
    EXPECT_EQ(
        error_of([] {
            throw ReloadError({"", "", 0}, "a place: why", 1, Phase::backward);
        }),
        "a place: why"
    );
}

TEST(run, advice_is_of_the_refusal_that_the_error_has) {
    auto const error_with = [](Refusal const& refusal) {
        return error_of([&] { throw OutOfBudget({"", "", 0}, "a place: why", refusal); }, 1 << 30);
    };
    Refusal refusal{.why = NoRoom::pools_full};
    refusal.host.state = PoolState::full;
    std::string const words = error_with(refusal);
    EXPECT_NE(words.find(": a place: why; "), std::string::npos) << words;
    EXPECT_NE(words.find("a larger --host-budget"), std::string::npos) << words;
    std::string const other = error_with({});
    EXPECT_EQ(other.find("a larger --host-budget"), std::string::npos) << other;
}

}  // namespace
}  // namespace spillway::train
