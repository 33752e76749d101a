// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/option.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Option, each_face_has_its_names) {
    EXPECT_EQ(option_name("nvme_budget_bytes", Face::cpp), "nvme_budget_bytes");
    EXPECT_EQ(option_name("nvme_budget_bytes", Face::python), "nvme_budget");
    EXPECT_EQ(option_name("nvme_budget_bytes", Face::program), "--nvme-budget");
    EXPECT_EQ(option_name("nvme_allow_tmpfs", Face::python), "nvme_allow_tmpfs");
    EXPECT_EQ(option_name("state", Face::program), "state");
}

TEST(Option, words_name_options_as_their_reader_sets_them) {
    std::string const words = "give `nvme` or `host_budget_bytes`; what is lossy needs `lossy`.";
    EXPECT_EQ(
        with_option_names(words, Face::cpp),
        "give nvme or host_budget_bytes; what is lossy needs lossy = true."
    );
    EXPECT_EQ(
        with_option_names(words, Face::python),
        "give nvme= or host_budget=; what is lossy needs lossy=True."
    );
    EXPECT_EQ(
        with_option_names(words, Face::program),
        "give --nvme or --host-budget; what is lossy needs --lossy."
    );
    EXPECT_EQ(with_option_names("one ` alone", Face::cpp), "one ` alone");
}

TEST(Option, names_in_words_are_written_as_one_likes) {
    auto const write = [](std::string_view name) { return '<' + std::string(name) + '>'; };
    EXPECT_EQ(with_option_names("`nvme` or `lossy`", write), "<nvme> or <lossy>");
    EXPECT_EQ(with_option_names("one ` alone", write), "one ` alone");
}

}  // namespace
}  // namespace spillway
