// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Values that are made again, on a loop with real memory and threads.

#include "session/loop_rig.h"

#include <atomic>
#include <semaphore>
#include <thread>

namespace spillway {
namespace {

constexpr std::int64_t kSize = 256_KiB;

/// A rig with room for `values`; `recipes` say what each value is made of.
struct RecipeRig : Rig {
    explicit RecipeRig(std::int64_t values) : Rig(values * kSize, {}, {}, 64_MiB) {
        driver->make = [this](ValueId value) -> Result<std::int64_t> {
            if (on_run) {
                on_run(value);
            }
            Result<void*> const block = allocate(kSize);
            if (!block.ok()) {
                return block.error();
            }
            std::memset(*block, bytes.at(value), static_cast<std::size_t>(kSize));
            driver->put(value, *block);
            ++runs;
            return 2;
        };
    }
    ValueId save_made_of(std::vector<ValueId> sources) {
        ValueId const value = save(kSize).value();
        driver->recipes[value] = {{std::move(sources), 2, 1000, 0}, kSize};
        return value;
    }

    struct Pair {
        ValueId source;
        ValueId made;
    };
    /// In a forward: a value, and one that is made of it.
    Pair save_pair() {
        loop->phase(Phase::forward);
        ValueId const source = save(kSize).value();
        return {source, save_made_of({source})};
    }

    std::function<void(ValueId)> on_run;
    std::atomic<int> runs = 0;
};

TEST(LoopRecompute, values_are_made_again_and_nothing_is_moved) {
    RecipeRig rig(12);
    rig.loop->phase(Phase::forward);
    ValueId const first = rig.save(kSize).value();
    std::vector<ValueId> values;
    for (int i = 0; i < 24; ++i) {
        values.push_back(rig.save_made_of({first}));
    }
    rig.loop->phase(Phase::backward);
    for (auto value = values.rbegin(); value != values.rend(); ++value) {
        ASSERT_TRUE(rig.loop->need(*value).ok());
        rig.expect_intact(*value);
        rig.done_with(*value);
    }
    Report const report = rig.loop->report();
    EXPECT_EQ(report.stored_bytes, 0);
    EXPECT_GE(report.recomputed_values, 12);
    EXPECT_EQ(report.recomputed_bytes, report.recomputed_values * kSize);
    EXPECT_EQ(report.recomputed_operators, report.recomputed_values * 2);
    EXPECT_LE(report.device_peak_bytes, 12 * kSize);
    EXPECT_GE(report.recompute_away_peak_bytes, (25 - 12) * kSize);
    EXPECT_LE(report.recompute_away_peak_bytes, 24 * kSize);
    EXPECT_GE(report.steps_ns, report.recompute_ns);
    rig.done_with(first);
}

TEST(LoopRecompute, a_recipe_that_is_found_late_is_used) {
    RecipeRig rig(12);
    rig.loop->phase(Phase::forward);
    ValueId const source = rig.save(kSize).value();
    ValueId const made = rig.save(kSize).value();
    (void)rig.save_all(4, kSize);  // by now it is known that only the graph has it
    rig.driver->recipes[made] = {{{source}, 2, 1000, 0}, kSize};
    rig.driver->late_recipes = {made};
    (void)rig.save_all(8, kSize);
    ASSERT_FALSE(rig.driver->has(made));
    ASSERT_TRUE(rig.loop->need(made).ok());
    EXPECT_EQ(rig.runs, 1);
    rig.expect_intact(made);
}

TEST(LoopRecompute, a_write_makes_what_is_made_of_the_value_first) {
    RecipeRig rig(12);
    auto const [source, made] = rig.save_pair();
    (void)rig.save_all(11, kSize);
    ASSERT_FALSE(rig.driver->has(made));
    rig.write(source);
    EXPECT_EQ(rig.runs, 1);
    ASSERT_TRUE(rig.loop->need(made).ok());
    rig.expect_intact(made);
}

TEST(LoopRecompute, an_error_names_options_as_its_reader_sets_them) {
    RecipeRig rig(12);
    auto const [source, made] = rig.save_pair();
    (void)rig.save_all(11, kSize);
    ASSERT_FALSE(rig.driver->has(made));
    rig.driver->make = [](ValueId) -> Result<std::int64_t> {
        return Error{Errc::broken_promise, "it differs: set `recompute`", ""};
    };
    Result<Loop::Turn> const needed = rig.loop->need(made);
    ASSERT_FALSE(needed.ok());
    EXPECT_EQ(needed.error().what, "it differs: set recompute");
}

TEST(LoopRecompute, an_error_of_an_operator_leaves_the_recipe_as_it_was) {
    RecipeRig rig(12);
    auto const [source, made] = rig.save_pair();
    (void)rig.save_all(11, kSize);
    ASSERT_FALSE(rig.driver->has(made));
    auto const make = std::exchange(rig.driver->make, [](ValueId) -> Result<std::int64_t> {
        return Error{Errc::unsupported, "thrown", ""};
    });
    auto const failed = rig.loop->need(made);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().what, "thrown");
    rig.driver->make = make;
    ASSERT_TRUE(rig.loop->need(made).ok());
    rig.expect_intact(made);
}

TEST(LoopRecompute, other_threads_go_on_while_a_recipe_computes) {
    RecipeRig rig(12);
    auto const [source, made] = rig.save_pair();
    std::vector<ValueId> const others = rig.save_all(11, kSize);
    ASSERT_FALSE(rig.driver->has(made));
    std::binary_semaphore begun(0);
    std::binary_semaphore may_end(0);
    rig.on_run = [&](ValueId) {
        begun.release();
        may_end.acquire();
    };
    std::thread one([&] { EXPECT_TRUE(rig.loop->need(made).ok()); });
    begun.acquire();
    EXPECT_TRUE(rig.loop->need(others.back()).ok()) << "no turn is held";
    std::thread two([&] { EXPECT_TRUE(rig.loop->need(made).ok()); });
    may_end.release();
    one.join();
    two.join();
    EXPECT_EQ(rig.runs, 1) << "made once";
    rig.expect_intact(made);
}

TEST(LoopRecompute, a_source_that_went_to_the_tier_is_loaded_first) {
    RecipeRig rig(12);
    auto const [source, made] = rig.save_pair();
    (void)rig.save_all(14, kSize);
    ASSERT_FALSE(rig.driver->has(made));
    ASSERT_FALSE(rig.driver->has(source));
    ASSERT_TRUE(rig.loop->need(made).ok());
    rig.expect_intact(made);
    rig.expect_intact(source);
}

TEST(LoopRecompute, a_value_whose_sources_have_gone_is_moved) {
    RecipeRig rig(12);
    auto const [source, made] = rig.save_pair();
    rig.driver->has_sources = false;
    (void)rig.save_all(14, kSize);
    ASSERT_FALSE(rig.driver->has(made));
    ASSERT_TRUE(rig.loop->need(made).ok());
    rig.expect_intact(made);
    EXPECT_EQ(rig.runs, 0);
}

}  // namespace
}  // namespace spillway
