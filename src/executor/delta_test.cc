// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/delta.h"

#include "executor/event_log.h"
#include "executor/executor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace spillway {
namespace {

class DeltaOrder : public testing::Test {
  protected:
    void save(std::int64_t number, std::int64_t size_bytes) {
        values_.add({number}, {.size_bytes = size_bytes, .used_at = values_.count_use()});
        all_.push_back({number});
    }
    ValueTable values_;
    std::vector<ValueId> all_;
};

TEST_F(DeltaOrder, the_largest_size_times_staleness_leaves_first) {
    save(0, 100);  // 100 x 4
    save(1, 300);  // 300 x 3
    save(2, 300);  // 300 x 2
    save(3, 500);  // 500 x 1
    EXPECT_EQ(delta_order(values_, all_), (std::vector<ValueId>{{1}, {2}, {3}, {0}}));
    values_.find({1})->used_at = values_.count_use();  // 300 x 1; each other one grows by its size
    EXPECT_EQ(delta_order(values_, all_), (std::vector<ValueId>{{3}, {2}, {0}, {1}}));
}

TEST_F(DeltaOrder, of_equal_ones_the_older_leaves_first) {
    save(0, 100);  // 100 x 2
    save(1, 200);  // 200 x 1
    EXPECT_EQ(delta_order(values_, {{1}, {0}}), (std::vector<ValueId>{{0}, {1}}));
    EXPECT_TRUE(delta_order(values_, {}).empty());
}

TEST_F(DeltaOrder, what_is_below_a_hundredth_of_the_mean_leaves_last) {
    save(0, 9);
    for (int i = 0; i < 200; ++i) {
        (void)values_.count_use();
    }
    save(1, 1000);
    EXPECT_EQ(delta_order(values_, all_).front(), ValueId{0}) << "9 x 202, more than 1000";
    save(2, 1000);
    save(3, 1000);
    EXPECT_NE(delta_order(values_, all_).front(), ValueId{0});
    values_.find({0})->size_bytes = 7;  // the mean is 752
    EXPECT_EQ(delta_order(values_, all_).back(), ValueId{0});
}

TEST(DeltaDirector, twice_the_move_is_weighed_against_making_it_again) {
    constexpr std::int64_t k12GB = 12'025'908'428;  // what 0.35 of 32 GiB a second move in one
    EXPECT_TRUE(delta_remakes(k12GB, 0, 1'999'000'000));
    EXPECT_FALSE(delta_remakes(k12GB, 0, 2'001'000'000));
    EXPECT_TRUE(delta_remakes(k12GB, 101, 100)) << "measured";
    EXPECT_FALSE(delta_remakes(k12GB, 100, 100)) << "the ratio is 1";
}

/// Values under a budget of 3000 bytes.
class DeltaExecutor : public testing::Test {
  protected:
    static constexpr ExecutorOptions kOptions{
        .device_bytes = 3000, .host_bytes = 10'000, .eviction = EvictionRule::delta};

    std::vector<Command> on(Event const& event) {
        std::vector<Command> commands = executor_.on(event);
        for (Command const& command : commands) {
            if (command.kind == CommandKind::drop) {
                used_bytes_ -= command.size_bytes;
                gone_ += (gone_.empty() ? "" : ", ") + std::string(name_of(command.work)) + " " +
                         std::to_string(command.value.number);
            }
        }
        return commands;
    }
    void save(std::int64_t number, std::int64_t size_bytes) {
        used_bytes_ += size_bytes;
        (void)on(Saved{{number}, size_bytes, {"op", 0, static_cast<int>(number)}, usage()});
        (void)on(Point{{{number}}, usage()});
    }
    /// What goes for an allocation for which `missing_bytes` have to leave.
    std::string gone_for(std::int64_t missing_bytes) {
        gone_.clear();
        (void)on(Short{3000 - used_bytes_ + missing_bytes, usage()});
        return gone_;
    }
    [[nodiscard]] Usage usage() const { return {used_bytes_, used_bytes_}; }

    std::int64_t used_bytes_ = 0;
    std::string gone_;
    Executor executor_{kOptions};
};

TEST_F(DeltaExecutor, one_filter_ranks_what_moves_and_what_is_made_again) {
    save(0, 100);  // 100 x 4 when it is asked
    save(1, 100);  // 100 x 3
    save(2, 150);  // 150 x 2
    save(3, 50);   // 50 x 1
    (void)on(Made{{1}, {{{0}}, 1, 10, 0}, true});
    (void)on(Made{{2}, {{{0}}, 1, 10, 0}, false});
    EXPECT_EQ(gone_for(1), "none 0") << "though the other one costs less: cost is not weighed";
    EXPECT_EQ(gone_for(101), "recompute 1, none 2") << "of two equal ones the older first";
}

TEST_F(DeltaExecutor, what_no_pool_takes_is_made_again) {
    Executor small({.device_bytes = 1000, .host_bytes = 50, .eviction = EvictionRule::delta});
    (void)small.on(Saved{{0}, 100, {"op", 0, 0}, {100, 100}});
    (void)small.on(Made{{0}, {{}, 1, 10, 0}, false});
    (void)small.on(Point{{{0}}, {100, 100}});
    std::vector<Command> const commands = small.on(Short{950, {100, 100}});
    ASSERT_EQ(commands.size(), 1U);
    EXPECT_EQ(commands[0].work, SideWork::recompute);
}

TEST_F(DeltaExecutor, every_save_is_reported_since_each_counts) {
    EXPECT_FALSE(executor_.may_report_later(0));
    EXPECT_TRUE(Executor({.device_bytes = 1000, .host_bytes = 100}).may_report_later(0));
}

TEST_F(DeltaExecutor, the_rule_is_in_the_logs_header) {
    Result<LogHeader> const header = parse_log_header(log_header(kOptions));
    ASSERT_TRUE(header.ok()) << header.error().message();
    EXPECT_EQ(header->options, kOptions);
    EXPECT_EQ(log_header({}).find("eviction"), std::string::npos);
}

}  // namespace
}  // namespace spillway
