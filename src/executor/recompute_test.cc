// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Values with recipes: what the executor answers, command by command.

#include "executor/executor.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kSize = 100;
constexpr std::int64_t kLimit = 3000;

/// "drop 1 recompute, wait", one a command; notes are left out.
std::string text_of_commands(std::vector<Command> const& commands) {
    std::string text;
    for (Command const& command : commands) {
        text += (text.empty() ? "" : ", ") + std::string(name_of(command.kind));
        if (command.value.valid()) {
            text += " " + std::to_string(command.value.number);
        }
        if (command.work != SideWork::none) {
            text += " " + std::string(name_of(command.work));
        }
    }
    return text;
}

/// Values of 100 bytes under a budget of 3,000.
class RecomputeTest : public testing::Test {
  protected:
    std::vector<Command> on(Event const& event) {
        std::vector<Command> commands = executor_.on(event);
        for (Command const& command : commands) {
            used_bytes_ += command.kind == CommandKind::reserve && command.pool == Pool::device
                               ? command.size_bytes
                               : 0;
            used_bytes_ -= command.kind == CommandKind::drop ? command.size_bytes : 0;
        }
        return commands;
    }
    /// All that was asked for ends well.
    void finish(std::vector<Command> const& commands) {
        for (Command const& command : commands) {
            bool const ends = command.kind == CommandKind::store ||
                              command.kind == CommandKind::load ||
                              command.kind == CommandKind::run || command.kind == CommandKind::drop;
            used_bytes_ += command.work == SideWork::recompute && command.kind == CommandKind::run
                               ? command.size_bytes
                               : 0;
            if (ends) {
                (void)on(Finished{command.id});
            }
        }
    }
    void save(std::int64_t number, std::int64_t encoded_bytes = 0) {
        used_bytes_ += kSize;
        Slot const slot{"op", 0, static_cast<int>(number)};
        finish(on(Saved{{number}, kSize, slot, usage(), encoded_bytes}));
        finish(on(Point{{{number}}, usage()}));
    }
    void made(
        std::int64_t number,
        std::vector<ValueId> sources,
        std::int64_t calls = 1,
        std::int64_t transient_bytes = 0
    ) {
        (void)on(Made{{number}, {std::move(sources), calls, 10, transient_bytes}});
    }
    /// An allocation for which `missing_bytes` have to leave.
    std::vector<Command> ask_for(std::int64_t missing_bytes) {
        return on(Short{kLimit - used_bytes_ + missing_bytes, usage()});
    }
    std::vector<Command> need(std::int64_t number) { return on(Need{{number}, usage()}); }
    [[nodiscard]] Usage usage() const { return {used_bytes_, used_bytes_}; }

    std::int64_t used_bytes_ = 0;
    Executor executor_{ExecutorOptions{.device_bytes = kLimit, .host_bytes = 10'000}};
};

TEST_F(RecomputeTest, a_value_goes_without_a_copy_and_a_run_makes_it_again) {
    save(0);
    save(1);
    made(1, {{0}});
    std::vector<Command> const dropped = ask_for(1);
    EXPECT_EQ(text_of_commands(dropped), "drop 1 recompute");
    EXPECT_FALSE(executor_.all_on_device());
    finish(dropped);
    std::vector<Command> const back = need(1);
    EXPECT_EQ(text_of_commands(back), "run 1 recompute");
    EXPECT_EQ(back[0].lane, Lane::compute);
    finish(back);
    EXPECT_TRUE(executor_.all_on_device());
    EXPECT_EQ(executor_.ledger().held_bytes, 2 * kSize);
    EXPECT_EQ(text_of_commands(need(1)), "");
}

TEST_F(RecomputeTest, what_costs_more_than_a_move_goes_when_nothing_can_move) {
    save(0);
    save(1);
    (void)on(Made{{1}, {{{0}}, 1, 10, 0}, false});
    EXPECT_EQ(text_of_commands(ask_for(1)), "reserve 0, store 0, wait, drop 0");
    Executor without_pools{ExecutorOptions{.device_bytes = 1000}};
    (void)without_pools.on(Saved{{0}, kSize, {"op", 0, 0}, {100, 100}});
    (void)without_pools.on(Made{{0}, {{}, 1, 10, 0}, false});
    (void)without_pools.on(Point{{{0}}, {100, 100}});
    EXPECT_EQ(text_of_commands(without_pools.on(Short{950, {100, 100}})), "drop 0 recompute");
}

/// Value 0 of 100 bytes, which is to go as `advice` says and has a recipe; then an allocation for
/// which it has to leave.
std::string leaves_at_last(Executor& executor, Advice advice = Advice::when_asked) {
    (void)executor.on(Saved{{0}, kSize, {"op", 0, 0}, {kSize, kSize}, 0, advice});
    (void)executor.on(Made{{0}, {{}, 1, 10, 0}, true});
    (void)executor.on(Point{{{0}}, {kSize, kSize}});
    return text_of_commands(executor.on(Short{kLimit - kSize + 1, {kSize, kSize}}));
}

Plan plan_of_one(Fate const& fate) {
    Plan plan;
    plan.fates[{"op", 0, 0}] = fate;
    return plan;
}

TEST(RecomputeAtLast, what_a_plan_keeps_or_moves_goes_by_its_recipe_before_an_allocation_fails) {
    for (Fate const& fate : {Fate{FateKind::keep}, Fate{FateKind::move, Pool::host}}) {
        Executor executor{{.chooser = ChooserKind::planned, .device_bytes = kLimit}};
        (void)executor.on(PlanGiven{plan_of_one(fate)});
        EXPECT_EQ(leaves_at_last(executor), "drop 0 recompute") << name_of(fate.kind);
        EXPECT_EQ(text_of_commands(executor.on(Need{{0}, {0, 0}})), "run 0 recompute");
    }
}

TEST(RecomputeAtLast, what_an_advice_keeps_goes_by_its_recipe_unless_it_is_never_to_leave) {
    for (Advice const advice : {Advice::last_resort, Advice::at_once}) {
        Executor executor{{.device_bytes = kLimit}};
        EXPECT_EQ(leaves_at_last(executor, advice), "drop 0 recompute") << name_of(advice);
    }
    Executor executor{{.device_bytes = kLimit}};
    EXPECT_EQ(leaves_at_last(executor, Advice::never), "raise");
    Executor keeping{{.chooser = ChooserKind::keep_all, .device_bytes = kLimit}};
    EXPECT_EQ(leaves_at_last(keeping), "raise");
}

TEST(RecomputeAtLast, also_where_deltas_rule_chooses) {
    Executor executor{{.device_bytes = kLimit, .eviction = EvictionRule::delta}};
    EXPECT_EQ(leaves_at_last(executor, Advice::last_resort), "drop 0 recompute");
}

TEST(RecomputeAtLast, what_a_plan_keeps_moves_first_where_there_is_room) {
    Executor executor{
        {.chooser = ChooserKind::planned, .device_bytes = kLimit, .host_bytes = kSize}};
    (void)executor.on(PlanGiven{plan_of_one({FateKind::keep})});
    EXPECT_EQ(leaves_at_last(executor), "reserve 0, store 0, wait, drop 0");
}

TEST(RecomputeAtLast, what_is_kept_and_needs_what_has_gone_is_looked_at_again) {
    Executor planned{{.chooser = ChooserKind::planned, .device_bytes = kLimit}};
    Plan plan;
    std::int64_t const used = 4 * kSize;
    for (int i = 0; i < 4; ++i) {
        plan.fates[{"op", 0, i}] = {FateKind::keep};
    }
    (void)planned.on(PlanGiven{plan});
    for (std::int64_t i = 0; i < 4; ++i) {
        (void)planned.on(Saved{{i}, kSize, {"op", 0, static_cast<int>(i)}, {used, used}});
        std::vector<ValueId> const sources =
            i == 0 ? std::vector<ValueId>{} : std::vector{ValueId{i - 1}};
        if (i > 0) {
            (void)planned.on(Made{{i}, {sources, 4, 10, 0}});
        }
        (void)planned.on(Point{{{i}}, {used, used}});
    }
    EXPECT_EQ(
        text_of_commands(planned.on(Short{kLimit, {used, used}})),
        "drop 1 recompute, drop 2 recompute, drop 3 recompute, raise"
    );
}

/// Values in a row, each made of the one before, without anywhere to move them; the first has no
/// recipe. Answers an allocation for which `missing_bytes` have to leave.
std::string goes_of_a_chain(
    std::vector<std::int64_t> const& sizes, std::int64_t calls, std::int64_t missing_bytes
) {
    Executor executor{{.device_bytes = kLimit}};
    for (std::int64_t i = 0; i < std::ssize(sizes); ++i) {
        std::int64_t const size_bytes = sizes[static_cast<std::size_t>(i)];
        Slot const slot{"op", 0, static_cast<int>(i)};
        (void)executor.on(Saved{{i}, size_bytes, slot, {kLimit, kLimit}});
        if (i > 0) {
            (void)executor.on(Made{{i}, {{{i - 1}}, calls, 10, 0}});
        }
        (void)executor.on(Point{{{i}}, {kLimit, kLimit}});
    }
    return text_of_commands(executor.on(Short{missing_bytes, {kLimit, kLimit}}));
}

TEST(RecomputeAlone, a_small_source_stays_so_that_what_is_made_of_it_can_go) {
    EXPECT_EQ(goes_of_a_chain({100, 100, 801}, 1, 1), "drop 2 recompute")
        << "a third of the limit: 100 + 801 fits, 100 + 100 + 801 does not";
    EXPECT_EQ(goes_of_a_chain({100, 100, 801}, 1, 802), "drop 2 recompute, drop 1 recompute")
        << "before the allocation fails, half of the limit may come back";
}

TEST(RecomputeAlone, a_source_that_is_larger_goes_first) {
    EXPECT_EQ(goes_of_a_chain({100, 600, 400}, 1, 1), "drop 1 recompute");
}

TEST(RecomputeAlone, a_chain_gets_long_before_an_allocation_fails) {
    EXPECT_EQ(goes_of_a_chain({100, 100, 100, 100}, 4, 200), "drop 1 recompute, drop 2 recompute");
    EXPECT_EQ(
        goes_of_a_chain({100, 100, 100, 100}, 4, 201),
        "drop 1 recompute, drop 2 recompute, drop 3 recompute"
    );
}

TEST(RecomputeAlone, what_half_of_the_limit_cannot_bring_back_stays) {
    EXPECT_EQ(goes_of_a_chain({800, 801}, 1, 1), "raise");
}

TEST_F(RecomputeTest, what_can_go_by_its_recipe_is_not_stored_ahead) {
    for (std::int64_t number = 0; number < kLimit / kSize - 1; ++number) {
        save(number);
        if (number > 0) {
            made(number, {{0}});
        }
    }
    used_bytes_ += kSize;
    EXPECT_EQ(text_of_commands(on(Saved{{kLimit}, kSize, {"op", 0, 9}, usage()})), "");
}

TEST_F(RecomputeTest, a_source_that_is_away_is_loaded_before_the_run) {
    save(0);
    save(1);
    made(1, {{0}});
    finish(ask_for(1));
    finish(ask_for(1));
    std::vector<Command> const back = need(1);
    EXPECT_EQ(text_of_commands(back), "reserve 0, load 0, wait, bind 0, run 1 recompute");
    EXPECT_EQ(back.back().after, std::vector{back[1].id});
}

TEST_F(RecomputeTest, sources_that_have_gone_by_recipes_are_made_first_and_once) {
    for (std::int64_t number = 0; number < 4; ++number) {
        save(number);
    }
    made(1, {{0}});
    made(2, {{0}, {1}});
    made(3, {{1}, {2}});
    finish(ask_for(3 * kSize));
    std::vector<Command> const back = need(3);
    EXPECT_EQ(text_of_commands(back), "run 1 recompute, run 2 recompute, run 3 recompute");
    EXPECT_EQ(back[1].after, std::vector{back[0].id});
    EXPECT_EQ(back[2].after, (std::vector{back[0].id, back[1].id}));
}

TEST_F(RecomputeTest, a_chain_of_recipes_is_short) {
    for (std::int64_t number = 0; number < 4; ++number) {
        save(number);
    }
    made(1, {{0}}, 4);
    made(2, {{1}}, 4);
    made(3, {{2}}, 1);
    EXPECT_EQ(
        text_of_commands(ask_for(3 * kSize)),
        "drop 1 recompute, drop 2 recompute, reserve 0, store 0, wait, drop 0"
    );
}

TEST_F(RecomputeTest, what_comes_back_at_once_is_a_small_part_of_the_limit) {
    for (std::int64_t number = 0; number < 5; ++number) {
        save(number);
    }
    made(1, {{0}}, 1, 301);
    made(2, {{0}}, 1, 300);
    made(3, {{2}, {1}, {0}, {4}});
    std::string const text = text_of_commands(ask_for(3 * kSize));
    EXPECT_EQ(
        text, "drop 2 recompute, reserve 1, store 1, reserve 0, store 0, wait, drop 1, wait, drop 0"
    );
}

TEST_F(RecomputeTest, a_source_is_exact_and_nobody_elses) {
    save(0, 10);
    save(1);
    made(1, {{0}});
    EXPECT_EQ(text_of_commands(ask_for(1)).substr(0, 9), "reserve 0") << "it may be encoded";
    save(2);
    (void)need(2);
    save(3);
    made(3, {{2}});
    EXPECT_EQ(text_of_commands(ask_for(kSize + 1)).find("drop 3 recompute"), std::string::npos)
        << "the program has it";
}

TEST_F(RecomputeTest, what_a_run_needs_stays_while_the_run_asks_for_room) {
    save(0);
    save(1);
    made(1, {{0}});
    finish(ask_for(1));
    std::vector<Command> const back = need(1);
    EXPECT_EQ(text_of_commands(ask_for(1)), "raise 0") << "the source is held, and named";
    finish(back);
    EXPECT_EQ(text_of_commands(ask_for(1)), "reserve 0, store 0, wait, drop 0");
}

TEST_F(RecomputeTest, who_needs_a_value_while_runs_are_under_way_waits_for_them) {
    save(0);
    save(1);
    save(2);
    made(1, {{0}});
    made(2, {{0}});
    finish(ask_for(2 * kSize));
    std::vector<Command> const back = need(1);
    for (std::int64_t const number : {1, 2}) {
        std::vector<Command> const other = need(number);
        EXPECT_EQ(text_of_commands(other), "wait");
        EXPECT_EQ(other[0].after, std::vector{back[0].id});
    }
    finish(back);
    EXPECT_EQ(text_of_commands(need(2)), "run 2 recompute");
}

TEST_F(RecomputeTest, what_is_made_of_a_value_is_made_before_that_is_written) {
    save(0);
    save(1);
    made(1, {{0}});
    finish(ask_for(1));
    std::vector<Command> const first = on(AboutToWrite{{0}});
    EXPECT_EQ(text_of_commands(first), "run 1 recompute");
    finish(first);
    EXPECT_EQ(text_of_commands(on(AboutToWrite{{0}})), "");
}

TEST_F(RecomputeTest, a_drop_that_its_sources_do_not_allow_is_not_tried_again) {
    save(0);
    save(1);
    made(1, {{0}});
    std::vector<Command> const dropped = ask_for(1);
    used_bytes_ += kSize;
    (void)on(Failed{dropped[0].id, false, ""});
    EXPECT_TRUE(executor_.all_on_device());
    EXPECT_EQ(text_of_commands(ask_for(1)), "reserve 1, store 1, wait, drop 1");
}

TEST_F(RecomputeTest, a_run_that_failed_can_be_asked_for_again) {
    save(0);
    save(1);
    made(1, {{0}});
    finish(ask_for(1));
    (void)on(Failed{need(1)[0].id, false, "thrown"});
    EXPECT_EQ(text_of_commands(need(1)), "run 1 recompute");
}

TEST_F(RecomputeTest, what_does_not_fit_with_its_sources_is_refused_and_nothing_is_held) {
    save(0);
    save(1);
    made(1, {{0}});
    finish(ask_for(1));
    used_bytes_ += kLimit - 150;
    std::vector<Command> const refused = need(1);
    ASSERT_EQ(refused.size(), 1U);
    EXPECT_EQ(refused[0].kind, CommandKind::raise);
    used_bytes_ -= kLimit - 150;
    EXPECT_EQ(text_of_commands(need(1)), "run 1 recompute");
}

TEST_F(RecomputeTest, a_value_of_which_nothing_refers_any_more_needs_no_source) {
    save(0);
    save(1);
    made(1, {{0}});
    finish(ask_for(1));
    (void)on(Dropped{{1}});
    (void)on(Dropped{{0}});
    EXPECT_EQ(executor_.ledger(), LedgerView{});
}

TEST_F(RecomputeTest, recipes_of_each_other_never_both_go) {
    save(0);
    save(1);
    made(0, {{1}});
    made(1, {{0}});
    std::string const text = text_of_commands(ask_for(2 * kSize));
    EXPECT_EQ(text, "drop 0 recompute, reserve 1, store 1, wait, drop 1");
}

}  // namespace
}  // namespace spillway
