// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/short_chain.h"

#include "base/random.h"
#include "policy/rotor.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace spillway {
namespace {

/// No bytes beside stages, so that costs of a chain and of the short one can be equal.
std::vector<Stage> random_stages(std::size_t count) {
    std::uint64_t drawn = 11;
    auto const below = [&](std::uint64_t end) {
        return static_cast<std::int64_t>(mixed(drawn++) % end);
    };
    std::vector<Stage> stages(count);
    for (std::size_t i = 0; i < count; ++i) {
        stages[i].input = ValueId{static_cast<std::int64_t>(i)};
        stages[i].input_bytes = 1 + below(40);
        stages[i].tape_bytes = below(100);
        stages[i].other_bytes = below(3);
        stages[i].input_ns = below(5);
        stages[i].tape_ns = below(20);
        stages[i].forward_ns = below(30);
        stages[i].backward_ns = below(60);
        stages[i].input_has_recipe = i > 0 && below(4) > 0;
    }
    return stages;
}

TEST(ShortChain, of_few_stages_it_is_the_chain) {
    std::vector<Stage> const stages = random_stages(20);
    EXPECT_EQ(shortened(stages, 10).stages, stages);
}

TEST(ShortChain, a_long_one_has_all_bytes_and_times_and_its_last_stage_stays_alone) {
    std::vector<Stage> const stages = random_stages(1000);
    ShortChain const chain = shortened(stages, 50);
    EXPECT_GE(chain.stages.size(), 50U);
    EXPECT_LE(chain.stages.size(), 101U);
    EXPECT_EQ(whole_bytes(chain.stages), whole_bytes(stages));
    EXPECT_EQ(chain.stages.back(), stages.back());
    std::int64_t forward_ns = 0;
    for (Stage const& stage : stages) {
        forward_ns += stage.forward_ns;
    }
    for (Stage const& stage : chain.stages) {
        forward_ns -= stage.forward_ns;
    }
    EXPECT_EQ(forward_ns, 0);
    EXPECT_LE(*std::max_element(chain.counts.begin(), chain.counts.end()), 40U);
}

TEST(ShortChain, its_fates_cost_what_they_cost_the_long_one) {
    std::vector<Stage> const stages = random_stages(400);
    ShortChain const chain = shortened(stages, 20);
    std::int64_t const all_bytes = whole_bytes(stages);
    for (std::int64_t const percent : {90, 70, 50, 30}) {
        auto const fates =
            rotor_fates(chain.stages, all_bytes * percent / 100, all_bytes / 2, 2000);
        ASSERT_TRUE(fates) << percent;
        std::vector<StageFate> const of_all = chain.fates_of_all(*fates);
        ASSERT_EQ(of_all.size(), stages.size());
        EXPECT_EQ(chain_costs(stages, of_all), chain_costs(chain.stages, *fates)) << percent;
    }
}

}  // namespace
}  // namespace spillway
