// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/checkpoint_folder.h"

#include "train/bad_value.h"
#include "train/files.h"
#include "train/test_support.h"

#include <gtest/gtest.h>

namespace spillway::train {
namespace {

namespace fs = std::filesystem;

std::string folder_refusal(std::string const& path) {
    try {
        check_checkpoint_place(path);
    } catch (BadValue const& failure) {
        return failure.what();
    }
    return "accepted";
}

std::size_t entries(std::string const& folder) {
    auto const begin = fs::directory_iterator(folder);
    return static_cast<std::size_t>(std::distance(begin, fs::directory_iterator{}));
}

TEST(checkpoint_folder, a_new_one_appears_whole_and_replaces_an_older_one) {
    ScratchFolder const scratch;
    std::string const place = scratch.file("ckpt/");
    for (std::string const text : {"first", "second"}) {
        FreshFolder fresh(place);
        write_text(fresh.file(kStateFile), text);
        fresh.put_in_place();
        EXPECT_EQ(read_text(scratch.file("ckpt/state.json")), text);
    }
    EXPECT_EQ(entries(scratch.path()), 1U);
}

TEST(checkpoint_folder, one_that_is_given_up_leaves_the_old_one_and_nothing_else) {
    ScratchFolder const scratch;
    fs::create_directory(scratch.file("ckpt"));
    write_text(scratch.file("ckpt/state.json"), "old");
    {
        FreshFolder const fresh(scratch.file("ckpt"));
        write_text(fresh.file(kModelFile), "half");
    }
    EXPECT_EQ(read_text(scratch.file("ckpt/state.json")), "old");
    EXPECT_EQ(entries(scratch.path()), 1U);
}

TEST(checkpoint_folder, what_a_dead_process_left_is_swept_and_others_are_not) {
    ScratchFolder const scratch;
    fs::create_directory(scratch.file("ckpt.tmp-999999999"));
    write_text(scratch.file("ckpt.tmp-999999999/model.safetensors"), "half");
    fs::create_directory(scratch.file("ckpt.tmp-1"));
    fs::create_directory(scratch.file("ckpt.tmp-mine"));
    { FreshFolder const fresh(scratch.file("ckpt")); }
    EXPECT_FALSE(fs::exists(scratch.file("ckpt.tmp-999999999")));
    EXPECT_TRUE(fs::exists(scratch.file("ckpt.tmp-1")));
    EXPECT_TRUE(fs::exists(scratch.file("ckpt.tmp-mine")));
}

TEST(checkpoint_folder, a_link_stays_a_link_and_its_folder_is_replaced) {
    ScratchFolder const scratch;
    fs::create_directory(scratch.file("real"));
    fs::create_directory_symlink(scratch.file("real"), scratch.file("link"));
    FreshFolder fresh(scratch.file("link"));
    write_text(fresh.file(kStateFile), "new");
    fresh.put_in_place();
    EXPECT_TRUE(fs::is_symlink(scratch.file("link")));
    EXPECT_EQ(read_text(scratch.file("real/state.json")), "new");
}

TEST(checkpoint_folder, places_that_hold_anything_else_are_refused) {
    ScratchFolder const scratch;
    fs::create_directory(scratch.file("home"));
    write_text(scratch.file("home/letter"), "dear");
    write_text(scratch.file("file"), "");
    EXPECT_EQ(folder_refusal(scratch.file("new")), "accepted");
    EXPECT_NE(folder_refusal(scratch.file("home")).find("holds 'letter'"), std::string::npos);
    EXPECT_NE(folder_refusal(scratch.file("file")).find("not a folder"), std::string::npos);
    EXPECT_NE(folder_refusal(scratch.file("no/new")).find("there is no folder"), std::string::npos);
    EXPECT_EQ(entries(scratch.path()), 2U);
}

}  // namespace
}  // namespace spillway::train
