// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train_flags.h"

#include "spillway/option.h"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace spillway::cli {
namespace {

/// Why `words` are refused; empty: they are not.
std::string parsed(std::vector<std::string> words, TrainOptions& options) {
    CLI::App app;
    add_train_flags(app, options);
    std::reverse(words.begin(), words.end());
    try {
        app.parse(words);
        read_sizes(options);
    } catch (CLI::RequiresError const&) {
        return why_not_together(app);
    } catch (CLI::ExcludesError const&) {
        return why_not_together(app);
    } catch (CLI::ParseError const& failure) {
        return failure.what();
    }
    return "";
}

std::string refused(std::vector<std::string> words) {
    TrainOptions options;
    return parsed(std::move(words), options);
}

TEST(TrainFlags, help_shows_every_option_of_the_session) {
    CLI::App app;
    TrainOptions options;
    add_train_flags(app, options);
    std::string const help = app.help();
    for (Option const& option : option_table()) {
        if (option.flag.empty()) {
            continue;
        }
        EXPECT_NE(help.find(option.flag), std::string::npos) << option.flag;
        std::string const words =
            describe(option, Face::program) + " [" + describe_default(option, Face::program) + "]";
        EXPECT_NE(help.find(words), std::string::npos) << words;
    }
}

TEST(TrainFlags, values_reach_the_session) {
    TrainOptions options;
    EXPECT_EQ(
        parsed(
            {"--device-budget",
             "1GiB",
             "--nvme",
             "/",
             "--nvme-budget",
             "2MiB",
             "--nvme-rate",
             "1GB",
             "--lossy",
             "--codec",
             "affine4",
             "--codec",
             "other=nf4",
             "--policy",
             "keep_all",
             "--timeline",
             "file"},
            options
        ),
        ""
    );
    SessionOptions const& session = options.session;
    EXPECT_EQ(session.device_budget_bytes, std::int64_t{1} << 30);
    EXPECT_EQ(session.nvme_budget_bytes, 2 << 20);
    EXPECT_EQ(session.nvme_rate_bytes_per_s, 1'000'000'000);
    EXPECT_EQ(session.codecs, "affine4,other=nf4");
    EXPECT_EQ(session.policy, "keep_all");
    EXPECT_EQ(session.timeline_file, "file");
    EXPECT_TRUE(session.lossy);
    EXPECT_EQ(session.nonfinite, "keep");
    EXPECT_EQ(options.typed["nvme_rate_bytes_per_s"], "1GB");
}

TEST(TrainFlags, what_needs_or_excludes_another_is_named_with_its_value) {
    EXPECT_EQ(refused({"--codec", "affine4"}), "--codec affine4: needs --device-budget SIZE");
    EXPECT_EQ(refused({"--lossy"}), "--lossy: needs --device-budget SIZE");
    EXPECT_EQ(refused({"--nvme-rate", "1MB"}), "--nvme-rate 1MB: needs --nvme PATH");
    EXPECT_EQ(
        refused({"--device-budget", "1GiB", "--count-allocations"}),
        "--device-budget 1GiB: cannot be used together with --count-allocations"
    );
    EXPECT_EQ(refused({"--nvme", "/", "--nvme-rate", "1MB"}), "");
}

TEST(TrainFlags, what_cannot_be_is_named) {
    std::string const magic = refused({"--policy", "magic"});
    EXPECT_TRUE(magic.starts_with("--policy: magic not in {online,keep_all,auto,delta,")) << magic;
    EXPECT_EQ(refused({"--nvme", ""}), "--nvme: '' is empty");
    EXPECT_EQ(
        refused({"--device-budget", "0"}),
        "--device-budget: '0' must be greater than 0; write bytes, such as '16GiB' or '80%'; "
        "to only measure what training takes, give more than it can take ('1TiB')"
    );
}

}  // namespace
}  // namespace spillway::cli
