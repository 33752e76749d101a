// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Streams, events, devices and raw bytes, as a runtime uses them.

#include "late/test_support.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace late {
namespace {

constexpr std::size_t kBytes = 256;

/// A block that is freed with the test.
using Bytes = std::unique_ptr<void, void (*)(void*)>;

Bytes bytes_on(c10::Stream stream) {
    return {allocate_bytes(kBytes, stream), free_bytes};
}

Bytes pinned_bytes(int value) {
    Bytes bytes{allocate_pinned(kBytes), free_bytes};
    std::memset(bytes.get(), value, kBytes);
    return bytes;
}

bool are(Bytes const& bytes, int value) {
    auto const* const at = static_cast<unsigned char const*>(bytes.get());
    return std::all_of(at, at + kBytes, [value](unsigned char byte) { return byte == value; });
}

class Streams : public LateTest {};

TEST_F(Streams, raw_copies_go_out_and_across_and_come_back) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed);
        c10::Stream const main = main_stream();
        c10::Stream const copy = side_stream();
        Bytes const from = pinned_bytes(5);
        Bytes const to = pinned_bytes(0);
        Bytes const first = bytes_on(main);
        Bytes const second = bytes_on(copy);
        copy_async(first.get(), from.get(), kBytes, main);
        order(main, copy);
        copy_async(second.get(), first.get(), kBytes, copy);
        copy_async(to.get(), second.get(), kBytes, copy);
        copy.synchronize();
        host_reads(to.get(), kBytes, "check");
        EXPECT_TRUE(are(to, 5));
        EXPECT_EQ(all_reports(), "");
    }
}

TEST_F(Streams, kernels_of_ones_own_are_checked_as_all_others) {
    c10::Stream const main = main_stream();
    c10::Stream const side = side_stream();
    Bytes const block = bytes_on(main);
    auto* const low = static_cast<char*>(block.get());
    launch(main, "encode", {{low, 128, true}}, [low] { std::memset(low, 7, 128); });
    poison_async(low + 128, 128, main);
    order(main, side);
    launch(side, "check", {{low, 128}}, [low] { EXPECT_EQ(low[127], 7); });
    EXPECT_EQ(all_reports(), "");
    launch(main, "decode", {{low + 100, 56, true}}, [] {});
    ASSERT_EQ(reports().size(), 1U);
    EXPECT_EQ(reports()[0].first, (Party{"check", "late:0 stream 1", false}));
    EXPECT_EQ(reports()[0].second, (Party{"decode", "late:0 stream 0", true}));
    EXPECT_EQ(reports()[0].end - reports()[0].begin, 28U);
    wait_idle();
    EXPECT_EQ(low[128], '\xFF');
}

TEST_F(Streams, host_threads_work_beside_each_other) {
    for (Mode const mode : {Mode::lazy, Mode::eager}) {
        configure({.mode = mode});
        std::vector<std::thread> threads;
        std::array<float, 4> sums{};
        for (std::size_t i = 0; i < sums.size(); ++i) {
            threads.emplace_back([&sums, i] {
                c10::StreamGuard const guard(side_stream(static_cast<int>(i % 2)));
                at::Tensor sum = at::zeros({16}, on_late(static_cast<int>(i % 2)));
                for (int round = 0; round < 50; ++round) {
                    sum = sum + at::ones({16}, sum.options()) * static_cast<double>(i);
                }
                sums[i] = sum.sum().item<float>();
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        EXPECT_EQ(sums, (std::array<float, 4>{0, 800, 1600, 2400}));
        EXPECT_EQ(all_reports(), "");
        EXPECT_TRUE(damage().empty());
    }
}

TEST_F(Streams, a_copy_of_plain_host_memory_waits) {
    std::vector<unsigned char> plain(kBytes, 9);
    Bytes const block = bytes_on(main_stream());
    copy_async(block.get(), plain.data(), kBytes, main_stream());
    plain.assign(kBytes, 0);
    copy_async(plain.data(), block.get(), kBytes, main_stream());
    EXPECT_EQ(plain, std::vector<unsigned char>(kBytes, 9));
}

TEST_F(Streams, a_copy_past_the_end_of_a_block_is_refused) {
    Bytes const block = bytes_on(main_stream());
    Bytes const host = pinned_bytes(1);
    EXPECT_THROW(copy_async(block.get(), host.get(), kBytes + 1, main_stream()), c10::Error);
}

TEST_F(Streams, nothing_runs_before_somebody_waits) {
    Bytes const from = pinned_bytes(5);
    Bytes const block = bytes_on(main_stream());
    copy_async(block.get(), from.get(), kBytes, main_stream());
    EXPECT_EQ(stats().executed, 0);
    main_stream().synchronize();
    EXPECT_EQ(stats().executed, 2);  // the allocation and the copy
}

TEST_F(Streams, a_wait_takes_the_event_as_it_was_and_outlives_it) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed);
        c10::Stream const main = main_stream();
        c10::Stream const side = side_stream();
        Bytes const host = pinned_bytes(3);
        Bytes const block = bytes_on(main);
        {
            c10::Event event(c10::kPrivateUse1);
            copy_async(block.get(), host.get(), kBytes, main);
            event.record(main);
            event.block(side);
            event.record(side);
            event.block(main);
        }
        Bytes const back = pinned_bytes(0);
        copy_async(back.get(), block.get(), kBytes, side);
        side.synchronize();
        EXPECT_TRUE(are(back, 3));
        EXPECT_EQ(all_reports(), "");
    }
}

TEST_F(Streams, an_event_that_is_polled_passes) {
    at::Tensor const value = at::ones({8}, on_late()) * 3;
    Bytes const host = pinned_bytes(0);
    copy_async(host.get(), value.data_ptr(), value.nbytes(), main_stream());
    c10::Event event(c10::kPrivateUse1);
    event.record(main_stream());
    int polls = 1;
    while (!event.query()) {
        ++polls;
    }
    EXPECT_GT(polls, 1);
    host_reads(host.get(), kBytes, "check");
    EXPECT_EQ(*static_cast<float*>(host.get()), 3.0F);
    EXPECT_EQ(all_reports(), "");
    while (!main_stream().query()) {
    }
}

TEST_F(Streams, a_callback_runs_in_its_place_and_the_host_knows_what_it_knows) {
    c10::Stream const side = side_stream();
    Bytes const host = pinned_bytes(0);
    at::Tensor const value = at::ones({8}, on_late()) * 3;
    order(main_stream(), side);
    copy_async(host.get(), value.data_ptr(), value.nbytes(), side);
    float seen = 0;
    call_on_stream(side, [&] {
        host_reads(host.get(), value.nbytes(), "callback");
        seen = *static_cast<float*>(host.get());
    });
    while (seen == 0) {
        poll();
    }
    host_writes(host.get(), kBytes, "reuse");
    EXPECT_EQ(seen, 3.0F);
    EXPECT_EQ(all_reports(), "");
}

TEST_F(Streams, a_callback_that_waits_is_told_so) {
    call_on_stream(main_stream(), [] { main_stream().synchronize(); });
    EXPECT_THROW(main_stream().synchronize(), c10::Error);
}

TEST_F(Streams, a_host_wait_that_the_backend_cannot_see_needs_keep_running) {
    std::promise<int> promise;
    call_on_stream(side_stream(), [&] { promise.set_value(4); });
    KeepRunning const running;
    EXPECT_EQ(promise.get_future().get(), 4);
}

TEST_F(Streams, copies_between_devices_are_in_order_with_both) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed);
        at::Tensor const here = at::ones({8}, on_late()) * 2;
        at::Tensor const there = here.to(device(1)) + 1;
        at::Tensor const back = there.to(device(0)) * 2;
        EXPECT_EQ(there.device(), device(1));
        EXPECT_TRUE(at::equal(back.cpu(), at::full({8}, 6.0)));
        EXPECT_EQ(all_reports(), "");
    }
}

TEST_F(Streams, guards_restore_device_and_stream) {
    c10::Stream const side = side_stream(1);
    {
        c10::StreamGuard const on_side(side);
        EXPECT_EQ(guard().getDevice(), device(1));
        EXPECT_EQ(main_stream(1), side);
        EXPECT_EQ(at::empty({1}, on_late(1)).device(), device(1));
    }
    EXPECT_EQ(guard().getDevice(), device(0));
    EXPECT_NE(main_stream(1), side);
    EXPECT_THROW(guard().setDevice(device(2)), c10::Error);
    EXPECT_EQ(guard().deviceCount(), 2);
}

TEST_F(Streams, a_report_says_who_and_where) {
    Bytes const host = pinned_bytes(0);
    Bytes const block = bytes_on(main_stream());
    copy_async(host.get(), block.get(), kBytes, main_stream());
    host_writes(static_cast<char*>(host.get()) + 16, 32, "reuse");
    main_stream().synchronize();
    ASSERT_EQ(reports().size(), 1U);
    std::string const text = reports()[0].text();
    EXPECT_EQ(
        text.substr(0, text.find(" at ")),
        "race: copy_d2h writing on late:0 stream 0, then reuse writing on host with nothing "
        "between, "
        "32 bytes"
    );
    EXPECT_EQ(reports()[0].begin, reinterpret_cast<std::uintptr_t>(host.get()) + 16);
}

TEST_F(Streams, parts_of_a_buffer_are_told_apart) {
    c10::Stream const one = side_stream();
    c10::Stream const two = side_stream();
    Bytes const arena = pinned_bytes(1);
    Bytes const first = bytes_on(one);
    Bytes const second = bytes_on(two);
    auto* const low = static_cast<char*>(arena.get());
    for (int i = 0; i < 3; ++i) {
        copy_async(low, first.get(), 100, one);
        copy_async(low + 100, second.get(), 100, two);
    }
    EXPECT_EQ(all_reports(), "");
    copy_async(low + 99, second.get(), 2, two);
    ASSERT_EQ(reports().size(), 1U);
    EXPECT_EQ(reports()[0].end - reports()[0].begin, 1U);
    wait_idle();
}

TEST_F(Streams, a_failed_device_refuses_in_its_words_and_works_again_after) {
    at::Tensor const kept = at::ones({4}, on_late());
    c10::Event event(c10::kPrivateUse1);
    event.record(main_stream());
    {
        Failure const failure("the cable is out");
        EXPECT_THROW(at::ones({4}, on_late()), c10::Error);
        EXPECT_THROW(event.query(), c10::Error);
        EXPECT_THROW(event.block(side_stream()), c10::Error);
        EXPECT_THROW(main_stream().synchronize(), c10::Error);
        EXPECT_THROW(guard().setDevice(device(1)), c10::Error);
        try {
            event.record(main_stream());
            FAIL() << "it works";
        } catch (c10::Error const& error) {
            EXPECT_STREQ(error.what_without_backtrace(), "late: the cable is out");
        }
    }
    EXPECT_TRUE(at::equal((kept + 1).cpu(), at::full({4}, 2.0)));
    EXPECT_EQ(all_reports(), "");
}

}  // namespace
}  // namespace late
