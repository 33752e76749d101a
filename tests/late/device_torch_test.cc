// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What goes wrong with a device: names that name none, memory that is refused or not there, copies
// that fail, a fork. Each says what happened, and leaves a process that trains on.

#include "late/late.h"
#include "late/late_session.h"
#include "late/test_support.h"
#include "torch_driver/device_allocator.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace spillway {
namespace {

SessionOptions options(std::int64_t limit_bytes) {
    SessionOptions asked;
    asked.device_budget_bytes = limit_bytes;
    asked.device = "late";
    asked.min_value_bytes = 1024;
    return asked;
}

/// One step of a chain; its gradient is the plain one.
void expect_to_train(std::shared_ptr<TorchSession> const& session, std::int64_t size = rows()) {
    allocate_from(session, false);
    Tensor x = leaf(80, {size, size});
    Recorder const outer = std::exchange(thread_recorder(), Recorder{session, python_hook_depth()});
    Tensor y = chain(x).sum();
    thread_recorder() = outer;
    y.backward();
    here() = c10::Device(c10::kCPU);
    Tensor plain = leaf(80, {size, size});
    chain(plain).sum().backward();
    here() = suite().device;
    EXPECT_TRUE(at::equal(plain.grad(), x.grad().cpu()));
}

/// "option: why" of what a session cannot be opened with.
std::string refused(SessionOptions const& asked) {
    try {
        (void)TorchSession::open(asked);
    } catch (BadOption const& bad) {
        return bad.option() + ": " + bad.what();
    }
    return "it was opened";
}

TEST(Devices, a_device_that_is_not_there_is_named) {
    SessionOptions asked = options(values(12));
    asked.device = "late:7";
    EXPECT_EQ(refused(asked), "device: 'late:7': there are 2 of them here; the last is late:1");
    asked.device = "toaster";
    EXPECT_EQ(refused(asked), "device: 'toaster': no device of torch's; cpu, cuda and cuda:1 are");
    asked.device = "xpu";
    EXPECT_EQ(
        refused(asked),
        "device: 'xpu': there is no such device on this machine, or this torch cannot use it"
    );
}

TEST(Devices, a_host_budget_beyond_the_machine_is_refused) {
    SessionOptions asked = options(values(12));
    asked.host_budget_bytes = std::int64_t{1} << 50;
    EXPECT_NE(
        refused(asked).find("host_budget_bytes: host memory: 1024.0 TiB are asked for"),
        std::string::npos
    ) << refused(asked);
}

TEST(Devices, without_a_place_named_values_leave_for_host_memory) {
    auto const session = TorchSession::open(options(values(12)));
    expect_to_train(session);
    Report const report = session->report();
    EXPECT_GT(report.stored_bytes, 0);
    EXPECT_EQ(report.host_locked_bytes, 4 * values(12));
    SessionOptions keeps = options(values(12));
    keeps.policy = "keep_all";
    EXPECT_EQ(TorchSession::open(keeps)->report().host_locked_bytes, 0);
}

TEST(Devices, the_second_device_has_a_budget_of_its_own) {
    SessionOptions asked = options(values(12));
    asked.device = "late:1";
    asked.host_budget_bytes = values(256);
    auto const session = TorchSession::open(asked);
    allocate_from(session, false);
    here() = c10::Device(c10::kPrivateUse1, 1);
    {
        Tensor const first = at::empty({rows(), rows()}, late::on_late(0));
        Tensor const second = at::empty({rows(), rows()}, late::on_late(1));
        EXPECT_EQ(session->report().device_bytes, values(1));
        EXPECT_THROW(at::empty({rows() * 13, rows()}, late::on_late(1)), c10::OutOfMemoryError);
        Tensor const roomy = at::empty({rows() * 13, rows()}, late::on_late(0));
    }
    here() = suite().device;
}

TEST(Devices, where_memory_cannot_be_pinned_copies_go_from_pageable_memory) {
    late::set_limit(-1, 1);  // pinned memory
    testing::internal::CaptureStderr();
    {
        SessionOptions asked = options(values(12));
        asked.host_budget_bytes = values(256);
        auto const session = TorchSession::open(asked);
        expect_to_train(session);
        EXPECT_GT(session->report().stored_bytes, 0);
    }
    std::string const said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("host memory is not pinned, so copies are slower"), std::string::npos)
        << said;
    late::set_limit(-1, 0);
}

TEST(Devices, a_device_that_is_smaller_than_the_budget_is_made_room_on) {
    late::set_limit(0, values(12));
    auto const session = open_on_host(options(values(64)));
    expect_to_train(session);
    EXPECT_GT(session->report().stored_bytes, 0);
}

TEST(Devices, out_of_memory_says_who_and_what_and_a_smaller_batch_trains_on) {
    auto session = open_on_host(options(values(12)), values(2));
    try {
        expect_to_train(session);
        FAIL() << "it fits";
    } catch (c10::OutOfMemoryError const& error) {
        thread_recorder() = {};
        std::string const words = error.what_without_backtrace();
        for (char const* const part :
             {"asked for 4.0 KiB with ",
              " of 48.0 KiB in use",
              "are needed here",
              "the host budget is full"}) {
            EXPECT_NE(words.find(part), std::string::npos) << part << " in: " << words;
        }
    }
    expect_to_train(session, rows() / 2);
    session.reset();
    expect_to_train(open_on_host(options(values(12)), values(64)));
}

/// Refuses one copy, or from some time on all.
class OneBadCopy final : public C10Device {
  public:
    OneBadCopy(std::int64_t bad, std::int64_t limit_bytes)
        : C10Device(
              c10::Device(c10::kPrivateUse1, 0),
              *install_device_allocator(c10::kPrivateUse1),
              limit_bytes
          ),
          bad_(bad) {}

    void refuse_all() { refuses_all_ = true; }

    Result<void> copy(void* to, void const* from, std::int64_t size_bytes, StreamId stream)
        override {
        if (bad_-- == 0 || refuses_all_) {
            return Error{Errc::io, "the copy engine is on strike", "late:0"};
        }
        return C10Device::copy(to, from, size_bytes, stream);
    }

  private:
    std::int64_t bad_;
    bool refuses_all_ = false;
};

std::shared_ptr<TorchSession> open_with_a_bad_copy(std::int64_t bad) {
    SessionOptions const asked = options(values(24));
    auto const device = std::make_shared<OneBadCopy>(bad, asked.device_budget_bytes);
    auto host = HostTier::open(device->host_memory(values(256)).value());
    SessionDevice session_device{
        device,
        {.device = device->where(), .free_block = device->deleter()},
        [device](std::int64_t size_bytes) { return device->host_memory(size_bytes); }};
    MoverOptions mover;
    mover.own_thread = false;
    return TorchSession::open_on(
        asked, std::move(session_device), std::move(host), nullptr, std::move(mover)
    );
}

TEST(Devices, a_copy_out_that_fails_leaves_its_value_where_it_was) {
    for (std::int64_t const bad : {0, 2}) {
        auto const session = open_with_a_bad_copy(bad);
        allocate_from(session, false);
        for (int step = 0; step < 2; ++step) {
            session->loop().begin_step(step);
            expect_to_train(session);
        }
    }
}

TEST(Devices, a_copy_in_that_fails_stops_backward_with_its_words) {
    auto const session = open_with_a_bad_copy(1000);
    allocate_from(session, false);
    Tensor x = leaf(81);
    Recorder const outer = std::exchange(thread_recorder(), Recorder{session, python_hook_depth()});
    Tensor y = chain(chain(x)).sum();
    thread_recorder() = outer;
    auto* const device = static_cast<OneBadCopy*>(session->device().get());
    device->refuse_all();
    try {
        y.backward();
        FAIL() << "a copy that was never made went unnoticed";
    } catch (c10::Error const& error) {
        std::string const words = error.what_without_backtrace();
        EXPECT_NE(words.find("the copy engine is on strike"), std::string::npos) << words;
        EXPECT_NE(words.find("cannot bring back the saved tensor"), std::string::npos) << words;
    }
}

TEST(Devices, a_forked_child_ends_and_its_parent_trains_on) {
    auto session = open_on_host(options(values(12)));
    allocate_from(session, false);
    Tensor x = leaf(82);
    Recorder const outer = std::exchange(thread_recorder(), Recorder{session, python_hook_depth()});
    Tensor y = chain(x).sum();
    thread_recorder() = outer;
    pid_t const child = ::fork();
    if (child == 0) {  // as a worker that loads data: the CPU, and then it ends
        float const sum = at::ones({64}).sum().item<float>();
        y.reset();
        session.reset();
        ::_exit(sum == 64 ? 5 : 6);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 5) << status;
    y.backward();
    y = Tensor();
    x = Tensor();
    expect_to_train(session);
}

}  // namespace
}  // namespace spillway
