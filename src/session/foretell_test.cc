// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/foretell.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kPeakBytes = 8 * kChainSetBytes + kChainFloorBytes;
constexpr std::int64_t kStepNs = 8 * (kChainForwardNs + kChainBackwardNs);
Budgets const kHost{.host_bytes = 1_GiB};

TEST(Foretell, a_steady_step_is_the_second_one) {
    Foretold const row = foretell("online", chain(8), fast_machine(), {kPeakBytes, 1_GiB, 0});
    EXPECT_EQ(row.refusal, "");
    EXPECT_EQ(row.step_ns, kStepNs);
    EXPECT_EQ(row.peak_bytes, kPeakBytes);
    EXPECT_EQ(row.loaded_bytes, 0);
}

TEST(Foretell, deltas_director_knows_the_machines_rates) {
    Trace const trace = chain_with_recipes(8, kChainForwardNs);
    Budgets const half{kPeakBytes / 2, 1_GiB, 0};
    Foretold const fast = foretell("delta", trace, fast_machine(1e10), half);
    EXPECT_EQ(fast.refusal, "");
    EXPECT_GT(fast.stored_bytes, 0);
    EXPECT_EQ(fast.recomputed_bytes, 0) << "a move takes 0.2 ms, a recompute 1";
    Trace const longer = chain_with_recipes(48, kChainForwardNs);
    Foretold const slow = foretell("delta", longer, fast_machine(1e9), {30'000'000, 1_GiB, 0});
    EXPECT_EQ(slow.refusal, "");
    EXPECT_GT(slow.stored_bytes, 0) << "of those without a recipe";
    EXPECT_GT(slow.recomputed_bytes, 0) << "a move takes 2 ms";
}

/// The paragraph on DELTA in docs/systems.md, by milliseconds.
TEST(Foretell, waits_of_the_chain_in_the_docs) {
    Trace const trace = chain_with_recipes(48, kChainForwardNs);
    std::int64_t compute_ns = 0;
    for (TracePoint const& point : trace.points) {
        compute_ns += point.duration_ns;
    }
    auto const longer_ms = [&](std::string const& policy, double rate) {
        Foretold const found = foretell(policy, trace, fast_machine(rate), {30'000'000, 1_GiB, 0});
        EXPECT_EQ(found.refusal, "") << policy;
        return static_cast<double>(found.step_ns - compute_ns) / 1e6;
    };
    for (char const* const policy : {"delta", "online", "str"}) {
        EXPECT_NEAR(longer_ms(policy, 1e10), 0, 0.5) << policy;
    }
    EXPECT_NEAR(longer_ms("delta", 2e8), 59, 0.5);
    EXPECT_NEAR(longer_ms("online", 2e8), 78, 0.5);
    EXPECT_NEAR(longer_ms("str", 2e8), 11, 1.5) << "with CBC and without";
}

TEST(Foretell, online_makes_again_only_where_nothing_can_move_as_sessions_do) {
    Trace const trace = chain_with_recipes(48, kChainForwardNs);
    Foretold const moved = foretell("online", trace, fast_machine(), {30'000'000, 1_GiB, 0});
    EXPECT_EQ(moved.refusal, "");
    EXPECT_GT(moved.stored_bytes, 0);
    EXPECT_EQ(moved.recomputed_bytes, 0);
    Foretold const alone = foretell("online", trace, fast_machine(), {40'000'000, 0, 0});
    EXPECT_EQ(alone.refusal, "");
    EXPECT_GT(alone.recomputed_bytes, 0);
}

TEST(Foretell, a_row_has_the_bound_of_its_plan) {
    Budgets const half{kPeakBytes / 2, 1_GiB, 0};
    Foretold const plan = foretell("auto", chain(8), fast_machine(1e9), half);
    EXPECT_GE(plan.bound_step_ns, kStepNs);
    EXPECT_LE(plan.bound_step_ns, plan.step_ns);
    EXPECT_EQ(foretell("tba", chain(8), fast_machine(1e9), half).bound_step_ns, 0);
    EXPECT_EQ(foretell("online", chain(8), fast_machine(1e9), half).bound_step_ns, 0);
}

TEST(Foretell, what_does_not_run_says_why) {
    Foretold const row = foretell("keep_all", chain(8), fast_machine(), {kChainSetBytes, 1_GiB, 0});
    EXPECT_NE(row.refusal, "");
    EXPECT_EQ(row.step_ns, 0);
}

TEST(Foretell, the_smallest_budget_runs_and_less_does_not) {
    std::int64_t const least =
        smallest_budget("online", chain(8), fast_machine(), kHost, kPeakBytes);
    ASSERT_GT(least, 0);
    EXPECT_LT(least, kPeakBytes / 2);
    EXPECT_EQ(foretell("online", chain(8), fast_machine(), {least, 1_GiB, 0}).refusal, "");
    EXPECT_NE(foretell("online", chain(8), fast_machine(), {least * 9 / 10, 1_GiB, 0}).refusal, "");
    EXPECT_EQ(smallest_budget("keep_all", chain(8), fast_machine(), kHost, kPeakBytes / 2), 0);
}

TEST(Compare, has_a_row_for_each_policy_and_budget_in_order) {
    Result<Comparison> const all = compare(
        chain(8), fast_machine(), {"te:layers=4", "keep_all"}, {9'000'000, 4'500'000}, kHost
    );
    ASSERT_TRUE(all.ok()) << all.error().message();
    ASSERT_EQ(all->rows.size(), 4U);
    EXPECT_EQ(all->rows[0].policy, "te:layers=4");
    EXPECT_EQ(all->rows[1].device_bytes, 4'500'000);
    EXPECT_EQ(all->rows[1].refusal, "");
    EXPECT_EQ(all->rows[3].policy, "keep_all");
    EXPECT_NE(all->rows[3].refusal, "");
    EXPECT_EQ(all->compute_ns, kStepNs);
    EXPECT_EQ(all->peak_bytes, kPeakBytes);
    EXPECT_NE(all->to_table().find("keep_all under"), std::string::npos) << all->to_table();
    auto const json = nlohmann::json::parse(all->to_json(), nullptr, false);
    EXPECT_EQ(json["rows"].size(), 4U);
    EXPECT_EQ(json["rows"][0]["step_ns"], all->rows[0].step_ns);
    EXPECT_EQ(json["rows"][0]["bound_step_ns"], all->rows[0].bound_step_ns);
}

TEST(Compare, without_names_all_that_move_run_under_three_budgets) {
    Result<Comparison> const all = compare(chain(8), fast_machine(), {}, {}, kHost);
    ASSERT_TRUE(all.ok()) << all.error().message();
    EXPECT_EQ(all->budgets.size(), 3U);
    EXPECT_GT(all->rows.size(), 3U * 6U);
    EXPECT_EQ(all->rows.front().policy, "online");
}

TEST(Compare, what_is_wrong_is_one_line) {
    EXPECT_EQ(
        compare(chain(8), fast_machine(), {"best"}, {}, kHost).error().message().substr(0, 24),
        "policy: no policy 'best'"
    );
    EXPECT_EQ(
        compare(chain(8), fast_machine(), {"tba", "te"}, {}, {}).error().code, Errc::bad_argument
    );
}

TEST(Compare, without_a_pool_what_makes_again_is_compared) {
    Result<Comparison> const all = compare(blocks(8), fast_machine(), {}, {}, {});
    ASSERT_TRUE(all.ok()) << all.error().message();
    std::map<std::string, std::size_t> runs;
    for (Foretold const& row : all->rows) {
        runs[row.policy] += row.refusal.empty() ? 1 : 0;
    }
    EXPECT_EQ(runs.at("rotor"), all->budgets.size());
    EXPECT_EQ(runs.at("online"), all->budgets.size());
    EXPECT_EQ(runs.at("offload_all"), 0U);
    std::string const table = all->to_table();
    EXPECT_NE(table.find("offload_all, largest_first: it moves, and neither"), std::string::npos)
        << table;
}

TEST(Compare, says_that_a_step_has_no_recipes_for_those_that_make_again) {
    std::vector<std::string> const names{"online", "capuchin:queue=0", "str"};
    Result<Comparison> const bare = compare(chain(8), fast_machine(), names, {}, kHost);
    ASSERT_TRUE(bare.ok()) << bare.error().message();
    std::string const words = "\nnote: nothing can be made again by capuchin:queue=0, str: ";
    EXPECT_NE(bare->to_table().find(words), std::string::npos) << bare->to_table();
    Trace const trace = chain_with_recipes(8, kChainForwardNs);
    EXPECT_EQ(note_of_recipes(trace, names), "");
    EXPECT_EQ(note_of_recipes(chain(8), {"online", "te"}), "");
}

TEST(Foretell, a_row_names_its_policy_once) {
    Foretold const row = foretell("te:layers=7", chain(6), fast_machine(), {kPeakBytes, 1_GiB, 0});
    EXPECT_EQ(row.refusal, "layers is 7, and of 6 layers at most 5 can leave");
    EXPECT_EQ(
        why_no_plan(Error{Errc::io, "no such file", "trace.json"}), "trace.json: no such file"
    );
}

TEST(Fit, budgets_are_of_the_machine) {
    Machine machine = fast_machine();
    Result<Comparison> const unbounded = fit(chain(8), machine, "online", kHost);
    ASSERT_TRUE(unbounded.ok());
    std::int64_t const capacity = (unbounded->floor_bytes + unbounded->peak_bytes) / 2;
    std::erase_if(machine.tiers, [](MachineTier const& tier) { return tier.pool == Pool::device; });
    machine.tiers.push_back({"device", Pool::device, capacity});
    Result<Comparison> const bounded = fit(chain(8), machine, "online", kHost);
    ASSERT_TRUE(bounded.ok());
    EXPECT_LE(bounded->budgets.front(), capacity);
    EXPECT_GT(bounded->budgets.front(), capacity - 4096);
    EXPECT_EQ(bounded->budgets.back(), unbounded->budgets.back());
    EXPECT_EQ(bounded->note.find("the machine's device has"), std::string::npos);
    Result<Comparison> const asked =
        compare(chain(8), machine, {"online"}, {capacity + 4096}, kHost);
    ASSERT_TRUE(asked.ok());
    EXPECT_NE(asked->note.find("the machine's device has"), std::string::npos) << asked->note;
    Result<Comparison> const proposed = compare(chain(8), machine, {"online"}, {}, kHost);
    ASSERT_TRUE(proposed.ok());
    EXPECT_LT(proposed->budgets.front(), capacity);
}

/// The peak is where a value is saved, so none can leave.
TEST(Fit, a_peak_that_nothing_lowers_is_one_row_and_said) {
    Trace trace = chain(8);
    trace.points[1].floor_bytes = 20 * kChainSetBytes + 200;  // not far into a page
    Result<Comparison> const all = fit(trace, fast_machine(), "online", kHost);
    ASSERT_TRUE(all.ok()) << all.error().message();
    EXPECT_EQ(all->rows.size(), 1U);
    EXPECT_EQ(all->budgets, std::vector{all->floor_bytes});
    std::string const words = "\nnote: nothing that can leave lowers the peak\n";
    EXPECT_NE(all->to_table().find(words), std::string::npos) << all->to_table();
    Result<Comparison> const some = compare(trace, fast_machine(), {"online"}, {}, kHost);
    ASSERT_TRUE(some.ok()) << some.error().message();
    EXPECT_EQ(some->rows.size(), 1U);
    trace = blocks(8);
    trace.points[0].floor_bytes = 50 * kBlockTapeBytes;
    Result<Comparison> const again = fit(trace, fast_machine(), "recompute_all", kHost);
    ASSERT_TRUE(again.ok()) << again.error().message();
    EXPECT_EQ(again->note, "nothing that recompute_all makes again lowers the peak");
}

TEST(Fit, goes_from_the_peak_down_to_the_smallest_that_works) {
    Result<Comparison> const all = fit(chain(8), fast_machine(), "online", kHost);
    ASSERT_TRUE(all.ok()) << all.error().message();
    EXPECT_GE(all->budgets.front(), kPeakBytes);
    EXPECT_EQ(all->rows.front().step_ns, kStepNs);
    EXPECT_EQ(all->rows.back().refusal, "");
    EXPECT_EQ(all->rows.size(), 9U);
    EXPECT_EQ(all->note, "");
    EXPECT_LE(all->budgets.back(), all->floor_bytes + 4096);
    EXPECT_EQ(
        all->tightest,
        "at least 1.4 MiB are needed at point 1 of 24 (forward, h.0): floor 488.3 KiB; saved "
        "tensors 976.6 KiB layer#0 (h.0)"
    );
    EXPECT_NE(all->to_table().find("\n" + all->tightest + "\n"), std::string::npos);
    EXPECT_EQ(fit(chain(2), fast_machine(), "te", kHost).error().code, Errc::out_of_memory);
}

}  // namespace
}  // namespace spillway
