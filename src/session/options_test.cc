// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/units.h"
#include "spillway/option.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

namespace spillway {
namespace {

constexpr std::int64_t kDeviceBytes = 8_GiB;

/// "code option: words" in Python's words; empty: none.
std::string shown(std::optional<OptionFault> const& fault) {
    if (!fault) {
        return "";
    }
    return std::string(name_of(fault->code)) + ' ' + fault->option + ": " +
           words_of(*fault, Face::python);
}

std::string read(char const* name, std::string_view text, SessionOptions& options) {
    return shown(read_option(*find_option(name), text, kDeviceBytes, options));
}

std::string checked(SessionOptions const& options) {
    return shown(check_options(options));
}

TEST(Options, text_is_read_by_the_type) {
    SessionOptions options;
    EXPECT_EQ(read("device_budget_bytes", "50%", options), "");
    EXPECT_EQ(read("host_budget_bytes", "0", options), "");
    EXPECT_EQ(read("nvme", "/", options), "");
    EXPECT_EQ(read("nvme_budget_bytes", "1.5MiB", options), "");
    EXPECT_EQ(read("nvme_rate_bytes_per_s", "2GB", options), "");
    EXPECT_EQ(read("lossy", "true", options), "");
    EXPECT_EQ(read("nonfinite", "refuse", options), "");
    EXPECT_EQ(read("rounding_seed", "7", options), "");
    SessionOptions const expected{
        .device_budget_bytes = 4_GiB,
        .nvme = "/",
        .nvme_budget_bytes = 1536_KiB,
        .lossy = true,
        .nonfinite = "refuse",
        .rounding_seed = 7,
        .nvme_rate_bytes_per_s = 2'000'000'000};
    for (Option const& option : option_table()) {
        std::visit(
            [&](auto member) { EXPECT_EQ(options.*member, expected.*member) << option.name; },
            option.member
        );
    }
}

TEST(Options, the_default_in_help_is_the_one_that_holds) {
    SessionOptions options;
    ASSERT_EQ(
        read("min_value_bytes", default_words(*find_option("min_value_bytes"), Face::cpp), options),
        ""
    );
    EXPECT_EQ(options.min_value_bytes, SessionOptions{}.min_value_bytes);
}

TEST(Options, text_that_is_none_of_its_type_is_named) {
    SessionOptions options;
    EXPECT_NE(
        read("device_budget_bytes", "much", options).find("not_a_size device_budget_bytes: 'much'"),
        std::string::npos
    );
    options.nvme = "/";
    EXPECT_NE(read("min_value_bytes", "10%", options).find("not_a_size "), std::string::npos);
    EXPECT_EQ(
        read("nvme_budget_bytes", "0%", options),
        "zero nvme_budget_bytes: '0%' must be greater than 0; write bytes, such as '16GiB' or "
        "'80%'"
    );
    EXPECT_EQ(
        read("rounding_seed", "7x", options),
        "not_a_whole_number rounding_seed: '7x' is not a whole number"
    );
    EXPECT_EQ(read("lossy", "yes", options), "not_a_toggle lossy: 'yes' is neither true nor false");
}

TEST(Options, bounds_choices_and_needs_are_checked) {
    EXPECT_EQ(checked({}), "");
    EXPECT_EQ(
        checked({.nvme = "/", .nvme_budget_bytes = 12}),
        "below_least nvme_budget_bytes: 12 is less than 4 KiB, the smallest block"
    );
    EXPECT_EQ(checked({.nvme = "/", .nvme_budget_bytes = 4096}), "");
    EXPECT_EQ(
        checked({.nvme_budget_bytes = 4096}),
        "needs_other nvme_budget_bytes: it needs nvme=, which is not set"
    );
    EXPECT_EQ(
        checked({.nvme_rate_bytes_per_s = 1}),
        "needs_other nvme_rate_bytes_per_s: it needs nvme=, which is not set"
    );
    std::string const best = checked({.policy = "best"});
    EXPECT_TRUE(best.starts_with(
        "unknown_choice policy: unknown policy 'best'; choose from online, keep_all, auto, delta, "
    )) << best;
    EXPECT_EQ(
        checked({.nonfinite = "zero"}),
        "unknown_choice nonfinite: unknown value 'zero'; choose keep or refuse"
    );
    EXPECT_EQ(checked({.rounding_seed = -1}), "");
    EXPECT_EQ(checked({.rank = -1}), "negative rank: -1 is negative");
}

TEST(Options, a_refusal_has_its_numbers) {
    EXPECT_EQ(
        check_options({.nvme = "/", .nvme_budget_bytes = 12}),
        (OptionFault{
            .code = OptionCode::below_least,
            .option = "nvme_budget_bytes",
            .number = 12,
            .bound = 4096})
    );
}

TEST(Options, a_share_of_free_space_needs_its_folder) {
    SessionOptions options;
    EXPECT_EQ(
        read("nvme_budget_bytes", "80%", options),
        "needs_other nvme_budget_bytes: it needs nvme=, which is not set"
    );
    EXPECT_TRUE(read("nvme_budget_bytes", "much", options).starts_with("not_a_size "));
}

TEST(Options, each_code_has_its_name_and_words) {
    auto const words = [](OptionFault const& fault, Face face) {
        return std::string(name_of(fault.code)) + ": " + words_of(fault, face);
    };
    OptionFault fault{
        .code = OptionCode::loses_precision,
        .option = "codecs",
        .given = "affine4",
        .detail = "attention=affine4"};
    EXPECT_EQ(
        words(fault, Face::program),
        "loses_precision: cannot be used: attention would lose precision with affine4; pass "
        "--lossy to allow it"
    );
    fault.option = "policy";
    fault.given = "qpo";
    EXPECT_EQ(
        words(fault, Face::python),
        "loses_precision: 'qpo' quantizes what it moves: attention would lose precision with "
        "affine4; pass lossy=True to allow it"
    );
    fault = {.code = OptionCode::has_no_effect, .option = "lossy", .detail = "nothing moves"};
    EXPECT_EQ(words(fault, Face::cpp), "has_no_effect: nothing moves");
    fault.given = "refuse";
    EXPECT_EQ(words(fault, Face::cpp), "has_no_effect: 'refuse' has no effect: nothing moves");
    fault = {
        .code = OptionCode::no_kernels,
        .option = "codecs",
        .given = "`lossy`",
        .detail = "nf4 on cuda"};
    EXPECT_EQ(
        words(fault, Face::cpp),
        "no_kernels: '`lossy`' cannot be used: there are no kernels for nf4 on cuda"
    );
    fault = {.code = OptionCode::no_tier, .option = "policy"};
    EXPECT_EQ(
        words(fault, Face::program),
        "no_tier: encoded tensors need a place to move to: give an NVMe folder (--nvme) or "
        "--host-budget"
    );
    fault = {
        .code = OptionCode::below_owned,
        .option = "device_budget_bytes",
        .number = 3_MiB,
        .bound = 2_MiB};
    EXPECT_EQ(
        words(fault, Face::cpp),
        "below_owned: parameters, gradients, buffers and optimizer state take 3.0 MiB (3145728 "
        "bytes), and the budget is 2.0 MiB (2097152 bytes); give more, as these stay on the device"
    );
    fault = {
        .code = OptionCode::above_free,
        .option = "nvme_budget_bytes",
        .given = "/scratch",
        .number = 2_KiB,
        .bound = 1_KiB};
    EXPECT_EQ(
        words(fault, Face::cpp),
        "above_free: 2.0 KiB (2048 bytes) are asked for, but '/scratch' has 1.0 KiB (1024 bytes) "
        "free; ask for less, or leave it out for nine tenths of the free space"
    );
    fault = {.code = OptionCode::not_deterministic, .option = "lossy"};
    EXPECT_TRUE(words(fault, Face::cpp).starts_with("not_deterministic: lossy codecs cannot"));
    fault = {.option = "nvme", .detail = "is memory; set `nvme_allow_tmpfs`"};
    EXPECT_EQ(words(fault, Face::python), "failed: is memory; set nvme_allow_tmpfs=True");
}

TEST(Options, every_number_below_its_least_is_refused) {
    for (Option const& option : option_table()) {
        if (auto const* const member =
                std::get_if<std::int64_t SessionOptions::*>(&option.member)) {
            SessionOptions options{.nvme = "/"};
            options.*(*member) = std::numeric_limits<std::int64_t>::min();
            EXPECT_EQ(check_options(options)->option, option.name);
            options.*(*member) = std::max<std::int64_t>(option.least, 1);
            EXPECT_EQ(checked(options), "");
        }
    }
}

TEST(Options, files_that_cannot_be_written_are_refused_before_their_time) {
    for (Option const& option : option_table()) {
        if (option.type == OptionType::file) {
            SessionOptions options;
            std::string& path = options.*std::get<std::string SessionOptions::*>(option.member);
            path = "/no/such/folder/file";
            EXPECT_EQ(
                check_options(options)->detail, "there is no folder '/no/such/folder' to put it in"
            );
            path = "/";
            EXPECT_EQ(
                checked(options),
                "not_writable " + std::string(option.name) + ": '/': a folder, not a file"
            );
            path = "a_file_that_is_not_there";
            EXPECT_EQ(checked(options), "");
        }
    }
}

TEST(Options, a_folder_that_takes_no_tensors_says_why_and_the_way_out) {
    EXPECT_EQ(why_no_tier_in(".", true), "");
    EXPECT_EQ(why_no_tier_in("/no/such/folder", true), "does not exist (it is not created)");
    EXPECT_EQ(why_no_tier_in("/proc/self/exe", true), "is not a folder");
    struct statfs system {};
    bool const has_memory = ::statfs("/dev/shm", &system) == 0 && system.f_type == TMPFS_MAGIC &&
                            ::access("/dev/shm", W_OK | X_OK) == 0;
    if (has_memory) {
        EXPECT_EQ(
            with_option_names(why_no_tier_in("/dev/shm", false), Face::program),
            "is memory (tmpfs), not a disk; use a folder on a disk, or set --nvme-allow-tmpfs"
        );
        EXPECT_EQ(why_no_tier_in("/dev/shm", true), "");
    }
}

TEST(Options, files_stay_where_the_program_was_when_it_named_them) {
    std::string const here = std::filesystem::current_path();
    for (Option const& option : option_table()) {
        if (option.type == OptionType::file) {
            auto const member = std::get<std::string SessionOptions::*>(option.member);
            SessionOptions options;
            EXPECT_EQ(with_absolute_files(options).*member, "");
            options.*member = "a_file";
            EXPECT_EQ(with_absolute_files(options).*member, here + "/a_file");
            options.*member = "/tmp/a_file";
            EXPECT_EQ(with_absolute_files(options).*member, "/tmp/a_file");
        }
    }
}

TEST(Options, help_names_options_as_its_reader_does) {
    Option const& rate = *find_option("nvme_rate_bytes_per_s");
    EXPECT_TRUE(describe(rate, Face::program).starts_with("limit --nvme"));
    EXPECT_TRUE(describe(rate, Face::python).starts_with("limit nvme"));
    EXPECT_TRUE(describe(rate, Face::program, Markup::markdown).starts_with("limit `--nvme`"));
    std::string const budget = describe(*find_option("device_budget_bytes"), Face::program);
    EXPECT_EQ(budget.find("GPU"), std::string::npos) << budget;
    EXPECT_EQ(budget.find("Python"), std::string::npos) << budget;
    std::string const in_python = describe(*find_option("device_budget_bytes"), Face::python);
    EXPECT_NE(in_python.find("of the GPU's memory"), std::string::npos) << in_python;
    std::string const policies = describe(*find_option("policy"), Face::program);
    EXPECT_NE(policies.find(": online (chooses"), std::string::npos) << policies;
    EXPECT_NE(policies.find("; with --lossy: qpo ("), std::string::npos) << policies;
}

TEST(Options, codecs_by_class_are_one_list_and_errors_name_the_class) {
    using Classes = std::vector<std::pair<std::string, std::string>>;
    auto const of = [](Classes const& classes) {
        Result<std::string> const text = codecs_of_classes(classes);
        return text.ok() ? *text : text.error().message();
    };
    EXPECT_EQ(of({}), "");
    EXPECT_EQ(
        of({{"attention", "affine8:group=64,stochastic"}, {"mask", "mask"}}),
        "attention=affine8:group=64,stochastic,mask=mask"
    );
    EXPECT_TRUE(of({{"attention", "affine9"}}).starts_with("'attention': affine9: no such codec"));
    EXPECT_TRUE(of({{"attention", "nf4,other=nf4"}}).starts_with("'attention': nf4,other=nf4: "));
    EXPECT_TRUE(of({{"weights", "nf4"}}).starts_with("'weights': 'weights' is not a class"));
    EXPECT_TRUE(of({{"", "nf4"}}).starts_with("'': "));
    EXPECT_TRUE(of({{"all", "nf4"}}).starts_with("'all': "));
}

TEST(Options, a_description_is_a_line_that_is_read) {
    for (Option const& option : option_table()) {
        for (Face const face : {Face::cpp, Face::python, Face::program}) {
            EXPECT_LE(describe(option, face).size(), 200U) << option.name;
        }
    }
}

}  // namespace
}  // namespace spillway
