// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The runtime's suite on the late accelerator. Every case runs under a seed of its own, which a
// failure prints; afterwards the checker has nothing to report and no byte was written that must
// not have been.
//
//   spillway_late_torch_test --gtest_repeat=200 --gtest_random_seed=1000    seeds 1000 to 1199

#include "base/ordering_rules.h"
#include "late/coding_device.h"
#include "late/late.h"
#include "late/late_session.h"
#include "late/test_support.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace spillway {
namespace {

std::uint64_t seed = 0;

constexpr int kKilled = 9;

/// In a build for mutants: the rule that SPILLWAY_BREAK names does not hold.
bool break_rule() {
#ifdef SPILLWAY_MUTANTS
    if (char const* const name = std::getenv("SPILLWAY_BREAK")) {
        auto const at = std::find(kOrderingRuleNames.begin(), kOrderingRuleNames.end(), name);
        broken_rule = static_cast<std::int32_t>(at - kOrderingRuleNames.begin());
        return true;
    }
#endif
    return false;
}
bool rule_is_broken() {
    static bool const broken = break_rule();
    return broken;
}

std::uint64_t first_seed() {
    return static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed));
}

/// A thread that ran a backward may still be freeing what it had.
void configure_when_idle() {
    auto const until = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    for (;;) {
        try {
            late::wait_idle();
            late::configure({.seed = seed, .quarantine_bytes = 1 << 20});
            return;
        } catch (c10::Error const&) {
            if (std::chrono::steady_clock::now() > until) {
                throw;
            }
        }
    }
}

class Seeds final : public testing::EmptyTestEventListener {
    void OnTestIterationStart(testing::UnitTest const&, int iteration) override {
        seed = first_seed() + static_cast<std::uint64_t>(iteration);
    }
    void OnTestStart(testing::TestInfo const& test) override {
        case_ = test.name();
        configure_when_idle();
    }
    void OnTestPartResult(testing::TestPartResult const& part) override {
        if (part.failed() && rule_is_broken()) {
            std::string const why = part.summary();
            std::printf(
                "killed by %s, seed %llu: %s\n",
                case_.c_str(),
                static_cast<unsigned long long>(seed),
                why.substr(0, why.find('\n')).c_str()
            );
            std::fflush(stdout);
            std::_Exit(kKilled);
        }
        if (part.failed()) {
            std::printf(
                "late: seed %llu (--gtest_random_seed)\n", static_cast<unsigned long long>(seed)
            );
        }
    }

    std::string case_ = "the environment";
};

/// What every case is held to.
class Checks final : public testing::EmptyTestEventListener {
    void OnTestEnd(testing::TestInfo const& test) override {
        if (test.result()->Skipped()) {
            return;
        }
        late::wait_until_freed();
        for (late::Report const& report : late::reports()) {
            ADD_FAILURE() << report.text();
        }
        EXPECT_EQ(late::damage().size(), 0U) << "bytes were written that must not have been";
        EXPECT_EQ(late::used_bytes(), 0) << "device bytes are left";
    }
};

class Late final : public testing::Environment {
    void SetUp() override {
        late::install();
        at::set_num_threads(1);
        (void)rule_is_broken();
        static bool const once = [] {
            seed = first_seed();
            auto& listeners = testing::UnitTest::GetInstance()->listeners();
            listeners.Append(new Seeds);
            listeners.Append(new Checks);
            return true;
        }();
        (void)once;
    }
};

testing::Environment* const environment = testing::AddGlobalTestEnvironment(new Late);

}  // namespace

Suite const& suite() {
    static Suite const late_suite = [] {
        late::install();
        return Suite{
            .device = c10::Device(c10::kPrivateUse1, 0),
            .rows = 32,
            .open = [](SessionOptions options, std::unique_ptr<Tier> tier, bool any) {
                options.device = "late";
                // Even seeds leave for pinned memory, odd ones for a tier behind staging; of four
                // two encoded.
                bool const on_host = any && seed % 2 == 0;
                if (seed % 4 > 1) {
                    return open_by_ticket(options, on_host ? nullptr : std::move(tier)).session;
                }
                return on_host ? open_on_host(options) : open_staged(options, std::move(tier));
            }};
    }();
    return late_suite;
}

}  // namespace spillway
