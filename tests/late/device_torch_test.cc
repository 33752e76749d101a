// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What goes wrong with a device: names that name none, memory that is refused or not there, copies
// that fail, a fork. Each says what happened, and leaves a process that trains on.

#include "late/late.h"
#include "late/late_session.h"
#include "late/test_support.h"

#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>

namespace spillway {
namespace {

/// One step of a chain; its gradient is the plain one.
void expect_to_train(std::shared_ptr<TorchSession> const& session, std::int64_t size = rows()) {
    allocate_from(session, false);
    Tensor x = leaf(80, {size, size});
    Tensor y = recorded(session, [&] { return chain(x).sum(); });
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
        (void)open_session(asked);
    } catch (BadOption const& bad) {
        return bad.what();
    }
    return "it was opened";
}

TEST(Devices, a_device_that_is_not_there_is_named) {
    SessionOptions asked = small_options();
    asked.device = "late:7";
    EXPECT_EQ(refused(asked), "device: 'late:7': there are 2 of them here; the last is late:1");
    asked.device = "toaster";
    EXPECT_EQ(
        refused(asked), "device: 'toaster': not a device that torch knows; use cpu, cuda or cuda:1"
    );
    asked.device = "xpu";
    EXPECT_EQ(
        refused(asked),
        "device: 'xpu': there is no such device on this machine, or this torch cannot use it"
    );
}

TEST(Devices, a_host_budget_beyond_the_machine_is_refused) {
    SessionOptions asked = small_options();
    asked.host_budget_bytes = std::int64_t{1} << 50;
    EXPECT_NE(
        refused(asked).find("host_budget_bytes: host memory: 1.0 PiB are asked for"),
        std::string::npos
    ) << refused(asked);
}

TEST(Devices, without_a_place_named_values_leave_for_host_memory) {
    auto const session = open_session(small_options());
    expect_to_train(session);
    Report const report = session->report();
    EXPECT_GT(report.stored_bytes, 0);
    EXPECT_EQ(report.host_locked_bytes, 4 * values(12));
    SessionOptions keeps = small_options();
    keeps.policy = "keep_all";
    EXPECT_EQ(open_session(keeps)->report().host_locked_bytes, 0);
}

TEST(Devices, the_second_device_has_a_budget_of_its_own) {
    SessionOptions asked = small_options();
    asked.device = "late:1";
    asked.host_budget_bytes = values(256);
    auto const session = open_session(asked);
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

using torch::autograd::generated::SinBackward0;

/// The first sine on the way to `y`: its value is needed last.
SinBackward0* first_sine(Tensor const& y) {
    SinBackward0* first = nullptr;
    for (torch::autograd::Node* node = y.grad_fn().get();
         node != nullptr && node->num_outputs() > 0;
         node = node->next_edge(0).function.get()) {
        auto* const sine = dynamic_cast<SinBackward0*>(node);
        first = sine == nullptr ? first : sine;
    }
    return first;
}

/// A step on the second device, whose forward runs with device `current` as the thread's own, and
/// its backward with the first; the first has more allocated than the budget meanwhile.
void expect_step_on_the_second_device(
    std::shared_ptr<TorchSession> const& session, c10::Device current
) {
    Tensor x = leaf(92);
    std::optional<c10::DeviceGuard> guard(current);
    Tensor y = recorded(session, [&] { return chain(chain(x)).sum(); });
    guard.reset();
    Tensor const roomy = at::full({13, rows(), rows()}, 1.0, late::on_late(0));
    at::empty({8, rows(), rows()}, late::on_late(1));  // takes the place of nearly all
    std::int64_t const before = session->report().loaded_bytes;
    EXPECT_EQ(first_sine(y)->self_.unpack().device(), here());
    late::wait_idle();
    session->loop().settle();  // now it is counted
    EXPECT_GT(session->report().loaded_bytes, before) << "it never was away";
    y.backward();
    EXPECT_TRUE(at::equal(plain_gradient(92, 1), x.grad().cpu()));
}

TEST(Devices, a_session_on_the_second_device_trains_there) {
    here() = late::device(1);
    SessionOptions asked = small_options();
    asked.device = "late:1";
    for (bool const staged : {false, true}) {
        auto const session =
            staged ? open_staged(asked, std::make_unique<MemoryTier>(values(1024)), true)
                   : open_on_host(asked);
        allocate_from(session, false);
        expect_step_on_the_second_device(session, late::device(0));
        expect_step_on_the_second_device(session, late::device(1));
        EXPECT_LE(session->report().device_peak_bytes, values(12));
        EXPECT_LE(late::stats().devices[1].peak_bytes, values(12));
    }
    here() = suite().device;
    EXPECT_EQ(late::stats().devices[0].peak_bytes, values(13));
}

TEST(Devices, where_memory_cannot_be_pinned_copies_go_from_pageable_memory) {
    late::set_limit(-1, 1);  // pinned memory
    testing::internal::CaptureStderr();
    {
        SessionOptions asked = small_options();
        asked.host_budget_bytes = values(256);
        auto const session = open_session(asked);
        expect_to_train(session);
        EXPECT_GT(session->report().stored_bytes, 0);
    }
    std::string const output = testing::internal::GetCapturedStderr();
    static bool is_first = true;  // it is said once a process
    bool const is_reported =
        output.find("host memory is not pinned, so copies are") != std::string::npos;
    EXPECT_EQ(is_reported, std::exchange(is_first, false)) << output;
    late::set_limit(-1, 0);
}

TEST(Devices, a_device_that_is_smaller_than_the_budget_is_made_room_on) {
    late::set_limit(0, values(12));
    auto const session = open_on_host(small_options(values(64)));
    expect_to_train(session);
    EXPECT_GT(session->report().stored_bytes, 0);
}

TEST(Devices, out_of_memory_says_who_and_what_and_a_smaller_batch_trains_on) {
    auto session = open_on_host(small_options(), values(2));
    try {
        expect_to_train(session);
        FAIL() << "it fits";
    } catch (c10::OutOfMemoryError const& error) {
        std::string const words = error.what_without_backtrace();
        for (char const* const part :
             {"asked for 4.0 KiB with ",
              " of 48.0 KiB in use",
              "are needed so far",
              "the host budget is full"}) {
            EXPECT_NE(words.find(part), std::string::npos) << part << " in: " << words;
        }
    }
    expect_to_train(session, rows() / 2);
    session.reset();
    expect_to_train(open_on_host(small_options(), values(64)));
}

TEST(Devices, a_session_whose_cap_has_ended_brings_its_values_back) {
    auto const session = open_on_host(small_options());
    allocate_from(session, false);
    Tensor x = leaf(94);
    Tensor y = recorded(session, [&] { return chain(chain(x)).sum(); });
    session->end_cap();
    Tensor const more_than_the_budget = at::zeros({30 * rows(), rows()}, here());
    y.backward();
    here() = c10::Device(c10::kCPU);
    Tensor plain = leaf(94);
    chain(chain(plain)).sum().backward();
    here() = suite().device;
    EXPECT_TRUE(at::equal(plain.grad(), x.grad().cpu()));
    session->loop().settle();
    EXPECT_GT(session->report().loaded_bytes, 0);
}

TEST(Devices, a_forked_child_ends_and_its_parent_trains_on) {
    auto session = open_on_host(small_options());
    allocate_from(session, false);
    Tensor x = leaf(82);
    Tensor first;
    Tensor y = recorded(session, [&] {
        first = at::sin(x * 1);
        return chain(first).sum();
    });
    // What came back for this stream, and is another's, too, is freed by the child.
    Tensor back = dynamic_cast<torch::autograd::generated::SinBackward0*>(first.grad_fn().get())
                      ->self_.unpack();
    back.record_stream(late::side_stream());
    first.reset();
    pid_t const child = ::fork();
    if (child == 0) {  // as a worker that loads data: the CPU, and then it ends
        float const sum = at::ones({64}).sum().item<float>();
        back.reset();
        y.reset();
        session.reset();
        ::_exit(sum == 64 ? 5 : 6);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 5) << status;
    back.reset();
    y.backward();
    y = Tensor();
    x = Tensor();
    expect_to_train(session);
}

}  // namespace
}  // namespace spillway
