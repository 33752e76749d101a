// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A model trains here as on the CPU: bit for bit, whatever the schedule.

#include "late/gpt.h"

#include "late/test_support.h"

#include <set>
#include <string>
#include <thread>

namespace late {
namespace {

constexpr std::int64_t kGptSteps = 4;

class GptOnLate : public LateTest {
  protected:
    void expect_as_on_cpu(Options const& options, int index) {
        configure(options);
        Trained const trained = train_gpt(7, device(index), kGptSteps);
        EXPECT_TRUE(trained == on_cpu()) << "seed " << options.seed;
        EXPECT_EQ(all_reports(), "") << "seed " << options.seed;
        EXPECT_TRUE(damage().empty());
        EXPECT_EQ(stats().devices[static_cast<std::size_t>(index)].live_blocks, 0);
    }

    static Trained const& on_cpu() {
        static Trained const trained = train_gpt(7, at::kCPU, kGptSteps);
        return trained;
    }
};

TEST_F(GptOnLate, trains_as_on_the_cpu_under_lazy_schedules) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        expect_as_on_cpu({.seed = seed}, 0);
    }
    EXPECT_LT(on_cpu().values[kGptSteps - 1].item<float>(), on_cpu().values[0].item<float>());
}

TEST_F(GptOnLate, trains_as_on_the_cpu_at_once_and_in_virtual_time) {
    expect_as_on_cpu({.mode = Mode::eager}, 0);
    expect_as_on_cpu({.mode = Mode::eager, .max_delay_us = 30}, 0);
    auto const by_bytes = [](std::string_view, std::int64_t size_bytes) {
        return 100 + size_bytes;
    };
    expect_as_on_cpu({.mode = Mode::virtual_time, .duration = by_bytes}, 0);
    EXPECT_GT(virtual_now(), 1'000'000);
}

TEST_F(GptOnLate, trains_as_on_the_cpu_on_the_second_device) {
    expect_as_on_cpu({.seed = 3}, 1);
    EXPECT_EQ(stats().devices[0].peak_bytes, 0);
}

TEST_F(GptOnLate, trains_as_on_the_cpu_on_a_side_stream) {
    configure({.seed = 5});
    c10::StreamGuard const guard(side_stream());
    EXPECT_TRUE(train_gpt(7, device(), kGptSteps) == on_cpu());
    EXPECT_EQ(all_reports(), "");
}

TEST_F(GptOnLate, backward_runs_on_a_thread_of_the_device_with_the_streams_of_forward) {
    c10::StreamGuard const guard(side_stream());
    at::Tensor const x = at::ones({4}, on_late()).requires_grad_();
    at::Tensor const y = x * 2;
    std::thread::id thread;
    c10::StreamId stream = 0;
    y.register_hook([&](at::Tensor const& gradient) {
        thread = std::this_thread::get_id();
        stream = main_stream().id();
        return gradient;
    });
    y.sum().backward();
    EXPECT_NE(thread, std::this_thread::get_id());
    EXPECT_EQ(stream, main_stream().id());
    EXPECT_TRUE(at::equal(x.grad().cpu(), at::full({4}, 2.0)));
}

TEST_F(GptOnLate, same_seed_gives_the_same_order_of_tasks_and_another_seed_another) {
    auto const order_of = [](std::uint64_t seed) {
        reset(seed);
        c10::Stream const side = side_stream();
        (void)train_gpt(7, device(), 2, [&](Gpt const& model) {
            order(main_stream(), side);
            c10::StreamGuard const guard(side);
            for (at::Tensor const& parameter : model.parameters()) {
                (void)parameter.grad().norm();
                parameter.grad().record_stream(side);
            }
        });
        wait_idle();
        EXPECT_EQ(all_reports(), "");
        return stats().order_hash;
    };
    std::set<std::uint64_t> orders;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        std::uint64_t const once = order_of(seed);
        EXPECT_EQ(order_of(seed), once) << "seed " << seed;
        orders.insert(once);
        RecordProperty("order_of_seed_" + std::to_string(seed), std::to_string(once));
    }
    EXPECT_EQ(orders.size(), 5U);
}

}  // namespace
}  // namespace late
