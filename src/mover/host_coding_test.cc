// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/host_coding.h"

#include "base/units.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <string>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kHostCount = 1000;

/// A value of so many floats, and what it becomes.
struct Trip {
    std::vector<float> raw = std::vector<float>(kHostCount, 2.0F);
    std::vector<float> back = std::vector<float>(kHostCount, -1.0F);
    std::vector<std::byte> block;
    BlockCode code;

    explicit Trip(char const* codec) {
        code = {{parse_codec(codec).value(), Dtype::f32, kHostCount}, 5, "test"};
        block.resize(static_cast<std::size_t>(encoded_bytes(code.encoding).value()));
    }
    CodingJob encode(std::int64_t fence) {
        return {{fence}, CodingTask::encode, code, std::as_bytes(std::span(raw)), block};
    }
    CodingJob decode(std::int64_t fence) {
        std::span const to = std::as_writable_bytes(std::span(back));
        return {{fence}, CodingTask::decode, code, block, to};
    }
};

TEST(HostCodingTest, a_job_encodes_and_another_decodes) {
    Trip trip("affine8");
    CodingResult const encoded = run(trip.encode(1));
    ASSERT_TRUE(encoded.outcome.ok());
    EXPECT_EQ(encoded.size_bytes, std::ssize(trip.block));
    EXPECT_GT(encoded.sums.of_values, 0);
    EXPECT_GE(encoded.time.end_ns, encoded.time.start_ns);
    ASSERT_TRUE(run(trip.decode(2)).outcome.ok());
    EXPECT_EQ(trip.back, trip.raw);
}

TEST(HostCodingTest, what_a_codec_refuses_and_a_changed_block_are_errors) {
    Trip trip("affine8");
    ASSERT_TRUE(run(trip.encode(1)).outcome.ok());
    EXPECT_TRUE(run({{2}, CodingTask::check, trip.code, trip.block, {}}).outcome.ok());
    trip.block.back() ^= std::byte{1};
    EXPECT_EQ(run(trip.decode(2)).outcome.error().code, Errc::corrupt);
    CodingJob const check{{2}, CodingTask::check, trip.code, trip.block, {}};
    EXPECT_EQ(run(check).outcome.error().code, Errc::corrupt);
    trip.raw[3] = INFINITY;
    EXPECT_EQ(run(trip.encode(3)).outcome.error().code, Errc::unsupported);
}

TEST(HostCodingTest, without_threads_whoever_has_a_job_runs_it) {
    HostCoding coding;
    coding.start(
        0, [] {}, [](CodingJob const&, CodingResult const&) { FAIL(); }
    );
    EXPECT_FALSE(coding.has_threads());
    coding.stop();
}

TEST(HostCodingTest, decodes_go_first_and_each_kind_in_order) {
    Trip trip("affine8");
    ASSERT_TRUE(run(trip.encode(0)).outcome.ok());
    std::promise<void> begin;
    std::string order;  // written by the one thread, read after it
    HostCoding coding;
    auto const enter = [ready = begin.get_future().share()] { ready.wait(); };
    coding.start(1, enter, [&](CodingJob const& job, CodingResult const& result) {
        EXPECT_TRUE(result.outcome.ok());
        order += std::to_string(job.fence.number) + " ";
    });
    coding.push(trip.encode(1));
    coding.push(trip.encode(2));
    coding.push(trip.decode(3));
    coding.push(trip.decode(4));
    begin.set_value();
    coding.stop();  // waits for all of them
    EXPECT_EQ(order, "3 4 1 2 ");
}

TEST(HostCodingTest, the_end_of_a_job_may_push_another_one) {
    Trip trip("mask");
    HostCoding coding;
    std::atomic<int> ended = 0;
    coding.start(
        2,
        [] {},
        [&](CodingJob const& job, CodingResult const& result) {
            EXPECT_TRUE(result.outcome.ok());
            if (job.is_encode()) {
                coding.push(trip.decode(2));
            }
            ++ended;
            ended.notify_all();
        }
    );
    coding.push(trip.encode(1));
    for (int now = ended; now < 2; now = ended) {
        ended.wait(now);
    }
    coding.stop();
    EXPECT_EQ(trip.back, trip.raw);
}

}  // namespace
}  // namespace spillway
