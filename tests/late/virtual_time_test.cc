// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Virtual time: lanes run beside each other, waits put them in sequence, and the host is a lane
// too.

#include "late/test_support.h"

#include <map>
#include <string>
#include <vector>

namespace late {
namespace {

class VirtualTime : public LateTest {
  protected:
    VirtualTime() {
        configure(
            {.mode = Mode::virtual_time,
             .duration = [](std::string_view op, std::int64_t size_bytes) -> std::int64_t {
                 return op == "copy_d2h" ? 100 : op == "copy_h2d" ? 150 : size_bytes;
             },
             .poll_ns = 10}
        );
        host_ = allocate_pinned(64);
        other_ = allocate_pinned(64);
        block_ = allocate_bytes(64, one_);
        second_ = allocate_bytes(64, two_);
    }
    ~VirtualTime() override {
        wait_idle();
        for (void* const bytes : {host_, other_, block_, second_}) {
            free_bytes(bytes);
        }
    }

    void store(c10::Stream stream) { copy_async(host_, block_, 64, stream); }
    void load(c10::Stream stream) { copy_async(second_, other_, 64, stream); }

    c10::Stream one_ = side_stream();
    c10::Stream two_ = side_stream();
    void* host_ = nullptr;
    void* other_ = nullptr;
    void* block_ = nullptr;
    void* second_ = nullptr;
};

TEST_F(VirtualTime, lanes_beside_each_other_take_the_longer_time) {
    store(one_);
    load(two_);
    EXPECT_EQ(virtual_now(), 0);
    one_.synchronize();
    EXPECT_EQ(virtual_now(), 100);
    two_.synchronize();
    EXPECT_EQ(virtual_now(), 150);
}

TEST_F(VirtualTime, a_wait_puts_them_in_sequence) {
    store(one_);
    order(one_, two_);
    load(two_);
    two_.synchronize();
    EXPECT_EQ(virtual_now(), 250);
}

TEST_F(VirtualTime, one_lane_is_in_sequence) {
    store(one_);
    store(one_);
    one_.synchronize();
    EXPECT_EQ(virtual_now(), 200);
}

TEST_F(VirtualTime, nothing_starts_before_the_host_enqueues_it) {
    store(one_);
    one_.synchronize();
    load(two_);
    two_.synchronize();
    EXPECT_EQ(virtual_now(), 250);
    advance_host(1000);
    store(one_);
    one_.synchronize();
    EXPECT_EQ(virtual_now(), 1350);
}

TEST_F(VirtualTime, a_poll_in_vain_costs_the_host_time) {
    store(one_);
    c10::Event event(c10::kPrivateUse1);
    event.record(one_);
    int polls = 0;
    while (!event.query()) {
        ++polls;
    }
    EXPECT_EQ(polls, 10);
    EXPECT_EQ(virtual_now(), 100);
}

TEST_F(VirtualTime, callbacks_run_in_order_of_time_and_may_enqueue) {
    std::vector<std::pair<std::string, std::int64_t>> seen;
    load(two_);
    call_on_stream(two_, [&] { seen.emplace_back("load", virtual_now()); });
    store(one_);
    call_on_stream(one_, [&] {
        seen.emplace_back("store", virtual_now());
        store(one_);
        call_on_stream(one_, [&] { seen.emplace_back("second store", virtual_now()); });
    });
    wait_idle();
    EXPECT_EQ(
        seen,
        (std::vector<std::pair<std::string, std::int64_t>>{
            {"store", 100}, {"load", 150}, {"second store", 200}})
    );
}

TEST_F(VirtualTime, a_host_that_waits_for_a_callback_says_until_when) {
    std::int64_t ended = 0;
    load(two_);
    call_on_stream(two_, [&] { ended = virtual_now(); });
    while (ended == 0) {
        poll();
    }
    advance_host_to(ended);
    store(one_);
    one_.synchronize();
    EXPECT_EQ(virtual_now(), 250);
}

TEST_F(VirtualTime, events_measure_it) {
    c10::Event begin(c10::kPrivateUse1, c10::EventFlag::BACKEND_DEFAULT);
    c10::Event end(c10::kPrivateUse1, c10::EventFlag::BACKEND_DEFAULT);
    begin.record(one_);
    store(one_);
    end.record(one_);
    end.synchronize();
    EXPECT_DOUBLE_EQ(begin.elapsedTime(end), 100e-6);
}

TEST_F(VirtualTime, operators_take_the_time_of_the_bytes_that_they_touch) {
    at::Tensor const value = at::ones({64}, on_late());
    main_stream().synchronize();
    std::int64_t const before = virtual_now();
    at::Tensor const sum = value + value;
    main_stream().synchronize();
    EXPECT_EQ(virtual_now() - before, 4 * 64 * 3);
    EXPECT_TRUE(at::equal(sum.cpu(), at::full({64}, 2.0)));
}

}  // namespace
}  // namespace late
