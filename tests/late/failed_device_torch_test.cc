// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Copies that a device refuses, and a device that refuses everything: what is stored stays, what is
// loaded is an error in the device's words, nothing hangs, and the process trains on.

#include "late/late.h"
#include "late/late_session.h"
#include "late/test_support.h"
#include "torch_driver/allocator/device_allocator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

namespace spillway {
namespace {

/// Where values go, and who carries them there.
struct Way {
    bool host = false;
    bool staged = false;
    bool own_thread = false;
};
constexpr Way kWays[] = {{.host = true}, {.staged = true}, {.staged = true, .own_thread = true}};

std::string name_of(Way way) {
    return std::string(way.host ? "host" : "") + (way.staged ? " staged" : "") +
           (way.own_thread ? " own thread" : "");
}

/// Refuses one copy each way, by its number, or from some time on all.
class BadCopies final : public C10Device {
  public:
    BadCopies(std::int64_t bad_out, std::int64_t bad_in, std::int64_t limit_bytes)
        : C10Device(
              c10::Device(c10::kPrivateUse1, 0),
              *install_device_allocator(c10::kPrivateUse1),
              limit_bytes
          ),
          bad_out_(bad_out),
          bad_in_(bad_in) {}

    void refuse_all() { refuses_all_ = true; }
    [[nodiscard]] int refused() const { return refused_; }
    [[nodiscard]] int copied_out() const { return copied_out_; }

    Result<void> copy(void* to, void const* from, std::int64_t size_bytes, StreamId stream)
        override {
        std::atomic<std::int64_t>& bad = stream == copy_out_stream() ? bad_out_ : bad_in_;
        if (bad-- == 0 || refuses_all_) {
            ++refused_;
            return Error{Errc::io, "the copy engine is on strike", "late:0"};
        }
        copied_out_ += stream == copy_out_stream() ? 1 : 0;
        return C10Device::copy(to, from, size_bytes, stream);
    }

  private:
    std::atomic<std::int64_t> bad_out_;
    std::atomic<std::int64_t> bad_in_;
    std::atomic<bool> refuses_all_ = false;
    std::atomic<int> refused_ = 0;
    std::atomic<int> copied_out_ = 0;
};

constexpr std::int64_t kNever = 1 << 20;

/// A budget under which some values move, and all stay where none can.
constexpr std::int64_t kRoomyValues = 28;

std::shared_ptr<BadCopies> bad_copies(
    std::int64_t bad_out, std::int64_t bad_in, std::int64_t limit_values = 14
) {
    return std::make_shared<BadCopies>(bad_out, bad_in, values(limit_values));
}

std::shared_ptr<TorchSession> open_over(std::shared_ptr<C10Device> const& device, Way way) {
    SessionDevice session_device{
        device,
        nullptr,
        {.device = device->where(), .free_block = device->deleter()},
        [device](std::int64_t size_bytes) { return device->host_memory(size_bytes); }};
    MoverOptions mover = mover_options(way.own_thread);
    std::unique_ptr<Tier> host;
    std::unique_ptr<Tier> nvme;
    if (way.staged) {
        mover.staging = device->host_memory(values(4)).value();
        nvme = std::make_unique<MemoryTier>(values(1024));
    }
    if (way.host) {
        host = HostTier::open(device->host_memory(values(1024)).value());
    }
    SessionOptions options = small_options(device->limit_bytes());
    options.recompute = "off";  // which copy fails is counted
    return open_session_on(
        options, std::move(session_device), std::move(host), std::move(nvme), std::move(mover)
    );
}

TEST(FailedDevices, a_copy_out_that_fails_leaves_its_value_where_it_was) {
    std::int64_t bad = 0;
    for (Way const way : kWays) {
        SCOPED_TRACE(name_of(way) + ", copy " + std::to_string(bad));
        auto const device = bad_copies(bad++, kNever, kRoomyValues);
        auto const session = open_over(device, way);
        expect_steps_like_plain(session, 80, 2);
        EXPECT_EQ(device->refused(), 1);
        auto const are_counted = [&] {
            late::wait_idle();
            session->loop().settle();
            return session->report().copy_out_bytes == values(device->copied_out());
        };
        bool counted = are_counted();
        for (int i = 0; i < 100'000 && !counted;
             ++i) {  // the mover's thread may still start copies
            std::this_thread::yield();
            counted = are_counted();
        }
        EXPECT_TRUE(counted);
    }
}

TEST(FailedDevices, a_value_whose_copy_to_the_host_fails_leaves_for_the_next_tier) {
    auto const device = bad_copies(1, kNever);
    auto const session = open_over(device, {.host = true, .staged = true, .own_thread = true});
    expect_steps_like_plain(session, 83, 2);
    EXPECT_EQ(device->refused(), 1);
    EXPECT_GT(session->report().nvme_stored_bytes, values(6));
}

TEST(FailedDevices, a_copy_in_that_fails_stops_backward_and_names_the_tensor) {
    for (Way const way : kWays) {
        SCOPED_TRACE(name_of(way));
        auto const device = bad_copies(kNever, kNever);
        auto const session = open_over(device, way);
        allocate_from(session, false);
        Tensor x = leaf(81);
        Tensor y = recorded(session, [&] { return chain(chain(x)).sum(); });
        device->refuse_all();
        try {
            y.backward();
            FAIL() << "a copy that was never made went unnoticed";
        } catch (c10::Error const& error) {
            std::string const words = error.what_without_backtrace();
            for (char const* const part :
                 {"cannot bring back the saved tensor [32, 32] float, output of ",
                  "the copy engine is on strike"}) {
                EXPECT_NE(words.find(part), std::string::npos) << part << " in: " << words;
            }
        }
    }
    expect_steps_like_plain(open_over(bad_copies(kNever, kNever), kWays[1]), 81, 1);
}

TEST(FailedDevices, a_read_ahead_whose_copy_in_fails_is_tried_again) {
    for (Way const way : kWays) {
        SCOPED_TRACE(name_of(way));
        auto const device = bad_copies(kNever, 1);
        expect_steps_like_plain(open_over(device, way), 82, 1);
        EXPECT_EQ(device->refused(), 1);
    }
}

/// Has no events for a while.
class OutOfEvents final : public C10Device {
  public:
    OutOfEvents()
        : C10Device(
              c10::Device(c10::kPrivateUse1, 0),
              *install_device_allocator(c10::kPrivateUse1),
              values(14)
          ) {}

    [[nodiscard]] int asked() const { return asked_; }

    StreamEventRef record(StreamId stream) override {
        std::optional<late::NoEvents> none;
        if (asked_++ % 3 == 0) {
            none.emplace();
        }
        return C10Device::record(stream);
    }
    void wait(StreamId stream, StreamEventRef const& event) override {
        std::optional<late::NoEvents> none;
        if (asked_++ % 3 == 0) {
            none.emplace();
        }
        C10Device::wait(stream, event);
    }

  private:
    std::atomic<int> asked_ = 0;
};

TEST(FailedDevices, without_events_the_host_waits_and_every_bit_is_right) {
    for (Way const way : kWays) {
        SCOPED_TRACE(name_of(way));
        auto const device = std::make_shared<OutOfEvents>();
        expect_steps_like_plain(open_over(device, way), 87, 2);
        EXPECT_GT(device->asked(), 20);
    }
}

/// How often `text` has `part`.
int count_of(std::string const& part, std::string const& text) {
    int count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++count;
    }
    return count;
}

/// When a device fails.
enum class When : std::uint8_t { in_forward, before_backward, in_backward };

/// A step in which the device fails for good. Returns how often that was said: torch may raise
/// before anything of ours is refused.
int fail_in_mid_step(std::shared_ptr<TorchSession> session, When when) {
    static int failures = 0;
    std::string const why = "the cable is out (" + std::to_string(++failures) + ")";
    allocate_from(session, false);
    testing::internal::CaptureStderr();
    {
        Tensor x = leaf(89);
        Tensor y;
        std::optional<late::Failure> failure;
        auto const fail_if = [&](bool now) {
            if (now) {
                failure.emplace(why);
            }
        };
        auto const step = [&] {
            y = recorded(session, [&] {
                Tensor const a = chain(x);
                a.register_hook([&](Tensor const&) { fail_if(when == When::in_backward); });
                fail_if(when == When::in_forward);
                return chain(a).sum();
            });
            fail_if(when == When::before_backward);
            y.backward();
        };
        EXPECT_THROW(step(), c10::Error);
        EXPECT_THROW(at::ones({4}, late::on_late()), c10::Error);
        session.reset();
        y.reset();
        x.reset();
        late::wait_until_freed();  // what failed stays failed for all that it had begun
    }
    std::string const output = testing::internal::GetCapturedStderr();
    int const times = count_of("late:0 has failed: late: " + why, output);
    EXPECT_LE(times, 1) << output;
    return times;
}

TEST(FailedDevices, a_device_that_fails_in_mid_step_ends_no_session_and_no_thread) {
    expect_steps_like_plain(open_on_host(small_options()), 88, 1);  // torch's threads are there
    int reports = 0;
    for (bool const staged : {false, true}) {
        for (When const when : {When::in_forward, When::before_backward, When::in_backward}) {
            SCOPED_TRACE(
                name_of({!staged, staged, true}) + ", " + std::to_string(static_cast<int>(when))
            );
            auto tier = std::make_unique<FaultyTier>(std::make_unique<MemoryTier>(values(1024)));
            tier->set_delay_ms(1);
            reports += fail_in_mid_step(
                staged ? open_staged(small_options(), std::move(tier), true)
                       : open_on_host(small_options(), values(1024), true),
                when
            );
        }
    }
    EXPECT_GE(reports, 1);
    expect_steps_like_plain(open_on_host(small_options()), 88, 1);
}

}  // namespace
}  // namespace spillway
