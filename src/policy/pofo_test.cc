// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/pofo.h"

#include "base/random.h"
#include "policy/chain_test.h"
#include "policy/rotor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace spillway {
namespace {

constexpr std::int64_t kAllAtOnce = std::numeric_limits<std::int64_t>::max();

PofoAnswer answer_of(std::vector<Stage> const& stages, std::int64_t room_bytes, double rate) {
    auto const answer = pofo_fates(
        {.stages = stages,
         .room_bytes = room_bytes,
         .segment_bytes = kAllAtOnce,
         .rate = rate,
         .slots = 24}
    );
    return answer ? *answer : PofoAnswer{};
}

TEST(Pofo, without_a_link_it_is_rotor) {
    std::vector<Stage> const stages = stages_of(StepView(blocks(8)));
    for (std::int64_t const sets : {40, 24, 18, 14}) {
        std::int64_t const room = sets * kBlockInputBytes;
        auto const rotor = rotor_fates(stages, room, kAllAtOnce, sets);
        ASSERT_TRUE(rotor) << sets;
        auto const pofo = pofo_fates(
            {.stages = stages,
             .room_bytes = room,
             .segment_bytes = kAllAtOnce,
             .rate = 0,
             .slots = sets}
        );
        ASSERT_TRUE(pofo) << sets;
        EXPECT_EQ(
            static_cast<std::int64_t>(pofo->extra_ns), chain_costs(stages, *rotor).recompute_ns
        ) << sets;
    }
}

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// What the model says of given fates, one stage or segment after the other, in whole bytes and a
/// link of a byte a nanosecond each way.
class Model {
  public:
    Model(std::vector<Stage> const& stages, std::int64_t room) : stages_(stages), room_(room) {}

    [[nodiscard]] std::int64_t extra_ns(std::vector<StageFate> const& fates) const {
        State state;
        for (std::size_t i = 0; i < fates.size();) {
            std::size_t end = i + 1;
            while (end < fates.size() && fates[end] == StageFate::inner) {
                ++end;
            }
            if (!pass(i, end, fates[i], state)) {
                return kNever;
            }
            i = end;
        }
        return state.extra_ns + state.to_leave + state.to_fetch;
    }

  private:
    struct State {
        std::int64_t held = 0;
        std::int64_t to_leave = 0;
        std::int64_t to_fetch = 0;
        std::int64_t extra_ns = 0;
    };

    /// The queue after `use` bytes were needed for `ns`: compute waits until they are free.
    void wait(
        std::int64_t use, std::int64_t ns, std::int64_t free, std::int64_t& queue, State& state
    ) const {
        std::int64_t const idle_ns = std::max<std::int64_t>(0, use + queue - free);
        queue = std::max<std::int64_t>(0, queue - ns - idle_ns);
        state.extra_ns += idle_ns;
    }

    [[nodiscard]] bool pass(std::size_t begin, std::size_t end, StageFate fate, State& state)
        const {
        bool const is_whole = fate == StageFate::keep || fate == StageFate::move;
        Stage const& first = stages_[begin];
        std::int64_t bytes = 0;
        std::int64_t inside = 0;
        std::int64_t in_forward = 0;
        std::int64_t in_backward = 0;
        std::int64_t forward_ns = 0;
        std::int64_t backward_ns = 0;
        std::int64_t remake_ns = 0;
        for (std::size_t j = begin; j < end; ++j) {
            Stage const& stage = stages_[j];
            bytes += whole_bytes(stage);
            inside += j == begin ? stage.other_bytes : bytes_kept_inside(stage);
            std::int64_t const now = first.input_bytes + inside + stage.tape_bytes;
            in_forward = std::max(in_forward, now + stage.beside_bytes);
            in_backward = std::max(in_backward, bytes + stage.beside_bytes);
            forward_ns += stage.forward_ns;
            backward_ns += stage.backward_ns;
            remake_ns += is_whole ? 0 : j == begin ? stage.tape_ns : remake_inside_ns(stage);
        }
        std::int64_t const free = room_ - state.held;
        if (std::max(in_forward, in_backward) > free) {
            return false;
        }
        wait(in_forward, forward_ns, free, state.to_leave, state);
        wait(in_backward, backward_ns + remake_ns, free, state.to_fetch, state);
        std::int64_t const moved = fate == StageFate::move         ? bytes
                                   : fate == StageFate::move_input ? first.input_bytes
                                                                   : 0;
        state.to_leave += moved;
        state.to_fetch += moved;
        state.held += (is_whole ? bytes : first.input_bytes + inside) - moved;
        state.extra_ns += remake_ns;
        return state.held + std::max(state.to_leave, state.to_fetch) <= room_;
    }

    std::vector<Stage> const& stages_;
    std::int64_t const room_;
};

/// The least of all fates of the stages from `fates.size()` on.
std::int64_t least_of_all(Model const& model, std::size_t count, std::vector<StageFate>& fates) {
    if (fates.size() == count) {
        return model.extra_ns(fates);
    }
    std::int64_t least = kNever;
    for (StageFate const fate :
         {StageFate::keep,
          StageFate::move,
          StageFate::checkpoint,
          StageFate::move_input,
          StageFate::inner}) {
        bool const ends_segment =
            fates.empty() || fates.back() == StageFate::keep || fates.back() == StageFate::move;
        if (fate == StageFate::inner && ends_segment) {
            continue;
        }
        fates.push_back(fate);
        least = std::min(least, least_of_all(model, count, fates));
        fates.pop_back();
    }
    return least;
}

std::vector<Stage> random_stages(std::uint64_t& drawn, std::size_t count) {
    auto const below = [&](std::uint64_t end) {
        return static_cast<std::int64_t>(mixed(drawn++) % end);
    };
    std::vector<Stage> stages(count);
    for (std::size_t i = 0; i < count; ++i) {
        stages[i].input = ValueId{static_cast<std::int64_t>(i)};
        stages[i].input_bytes = 1 + below(4);
        stages[i].tape_bytes = below(8);
        stages[i].other_bytes = below(2);
        stages[i].beside_bytes = below(3);
        stages[i].input_ns = below(3);
        stages[i].tape_ns = below(9);
        stages[i].forward_ns = below(6);
        stages[i].backward_ns = below(12);
        stages[i].input_has_recipe = i > 0 && below(4) > 0;
    }
    return stages;
}

TEST(Pofo, with_a_link_it_is_as_quick_as_the_best_of_all_fates_on_random_chains) {
    std::uint64_t drawn = 5;
    int without = 0;
    int moving = 0;
    for (int round = 0; round < 60; ++round) {
        std::size_t const count = 1 + mixed(drawn++) % 6;
        std::vector<Stage> const stages = random_stages(drawn, count);
        std::int64_t const all = whole_bytes(stages);
        std::int64_t const room =
            all / 3 + static_cast<std::int64_t>(mixed(drawn++) % static_cast<std::uint64_t>(all));
        std::vector<StageFate> fates;
        std::int64_t const least = least_of_all(Model(stages, room), count, fates);
        // As many slots as bytes, and a byte a nanosecond: nothing is rounded.
        auto const pofo = pofo_fates(
            {.stages = stages,
             .room_bytes = room,
             .segment_bytes = kAllAtOnce,
             .rate = 1e9,
             .slots = room}
        );
        ASSERT_EQ(pofo.has_value(), least != kNever) << "round " << round;
        if (!pofo) {
            ++without;
            continue;
        }
        EXPECT_EQ(static_cast<std::int64_t>(pofo->extra_ns), least) << "round " << round;
        EXPECT_EQ(Model(stages, room).extra_ns(pofo->fates), least) << "round " << round;
        moving += std::any_of(pofo->fates.begin(), pofo->fates.end(), [](StageFate fate) {
            return fate == StageFate::move || fate == StageFate::move_input;
        });
    }
    EXPECT_GT(without, 3);
    EXPECT_GT(moving, 10);
}

TEST(Pofo, a_fast_link_takes_what_rotor_would_make_again_and_a_slow_one_part_of_it) {
    std::vector<Stage> const stages = stages_of(StepView(blocks(8)));
    std::int64_t const room = 18 * kBlockInputBytes;
    double const none = answer_of(stages, room, 0).extra_ns;
    double const slow = answer_of(stages, room, 1.5e9).extra_ns;
    double const fast = answer_of(stages, room, 1e11).extra_ns;
    EXPECT_GT(none, 0);
    EXPECT_LT(slow, none * 2 / 3) << "the authors: a third less overhead";
    EXPECT_LT(fast, slow);
}

TEST(Pofo, its_plan_is_simulated_no_slower_than_rotor_s) {
    Trace const trace = blocks(12);
    for (double const rate : {2e8, 1e9, 1e10}) {
        Machine const machine = fast_machine(rate);
        Budgets const budgets{.device_bytes = 24 * kBlockInputBytes, .host_bytes = 1_GiB};
        Result<Plan> const rotor = make_plan({"rotor", {}}, trace, machine, budgets);
        Result<Plan> const pofo = make_plan({"pofo", {}}, trace, machine, budgets);
        ASSERT_TRUE(rotor.ok()) << rotor.error().message();
        ASSERT_TRUE(pofo.ok()) << pofo.error().message();
        EXPECT_LE(pofo->predicted_peak_bytes, budgets.device_bytes);
        EXPECT_LE(pofo->predicted_step_ns, rotor->predicted_step_ns) << rate;
    }
}

TEST(Pofo, nothing_fits_in_no_room) {
    std::vector<Stage> const stages = stages_of(StepView(blocks(8)));
    EXPECT_TRUE(answer_of(stages, kBlockInputBytes, 1e9).fates.empty());
}

}  // namespace
}  // namespace spillway
