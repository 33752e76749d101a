// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/open_session.h"

#include "base/units.h"
#include "executor/event_log.h"
#include "test_paths.h"
#include "tier/memory_tier.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

namespace spillway {
namespace {

namespace fs = std::filesystem;

/// On the CPU, over a tier in memory.
std::shared_ptr<TorchSession> open_over_memory(SessionOptions const& options) {
    return open_session_on(
        options, open_session_device(options), nullptr, std::make_unique<MemoryTier>(4_MiB)
    );
}

/// The option that `open` refuses; empty: none.
std::string refused(std::function<void()> const& open) {
    try {
        open();
    } catch (BadOption const& bad) {
        return bad.fault().option;
    }
    return "";
}

class OpenSessionTest : public testing::Test {
  protected:
    OpenSessionTest() { fs::create_directories(folder); }
    ~OpenSessionTest() override { fs::remove_all(folder); }

    /// What the executor of a session was opened with.
    [[nodiscard]] ExecutorOptions executor_of(SessionOptions options) const {
        options.record_events = folder + "/events";
        options.device_budget_bytes = 2_MiB;
        (void)open_over_memory(options);
        std::ifstream events(options.record_events);
        return read_event_log(events).value().options;
    }

    std::string const folder = build_folder() + "/open_session_test." + std::to_string(::getpid());
};

TEST_F(OpenSessionTest, the_executor_has_what_was_asked_and_what_the_tiers_hold) {
    ExecutorOptions const online = executor_of({.policy = "online"});
    EXPECT_EQ(online.chooser, ChooserKind::online);
    EXPECT_EQ(online.device_bytes, 2_MiB);
    EXPECT_EQ(online.host_bytes, 0);
    EXPECT_EQ(online.nvme_bytes, 4_MiB);
    EXPECT_EQ(executor_of({.policy = "keep_all"}).chooser, ChooserKind::keep_all);
    EXPECT_EQ(executor_of({.policy = "planned"}).chooser, ChooserKind::planned);
}

TEST_F(OpenSessionTest, a_planned_session_is_opened_on_tiers_of_the_callers_alone) {
    SessionOptions const planned{.device_budget_bytes = 2_MiB, .policy = "planned"};
    EXPECT_EQ(refused([&] { (void)open_session(planned); }), "policy");
    EXPECT_EQ(refused([&] { (void)open_over_memory(planned); }), "");
}

TEST_F(OpenSessionTest, options_are_checked_whatever_the_policy) {
    for (char const* const policy : {"online", "keep_all", "planned"}) {
        SessionOptions options{.device_budget_bytes = 2_MiB, .policy = policy};
        options.record_events = folder + "/absent/events";
        EXPECT_EQ(refused([&] { (void)open_over_memory(options); }), "record_events") << policy;
        options.record_events.clear();
        options.host_budget_bytes = -7;
        EXPECT_EQ(refused([&] { (void)open_over_memory(options); }), "host_budget_bytes") << policy;
    }
}

TEST_F(OpenSessionTest, a_refused_session_has_written_nothing) {
    SessionOptions options{.device_budget_bytes = 2_MiB, .codecs = "affine4"};
    options.nvme = folder;
    options.nvme_budget_bytes = 4_MiB;
    options.record_events = folder + "/events";
    EXPECT_EQ(refused([&] { (void)open_session(options); }), "codecs");
    EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(OpenSessionTest, what_is_encoded_needs_a_tier) {
    SessionOptions options{.device_budget_bytes = 2_MiB, .codecs = "lossless"};
    EXPECT_EQ(refused([&] { (void)open_over_memory(options); }), "");
    EXPECT_EQ(
        refused([&] {
            (void)open_session_on(options, open_session_device(options), nullptr, nullptr);
        }),
        "codecs"
    );
}

}  // namespace
}  // namespace spillway
