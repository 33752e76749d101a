// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/data.h"

#include "train/bad_value.h"
#include "train/random.h"
#include "train/test_support.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

namespace spillway::train {
namespace {

std::string tokens_as_text(Corpus const& corpus) {
    return {corpus.bytes.begin(), corpus.bytes.end()};
}

std::string data_refusal(std::string const& path, std::int64_t needed = 1) {
    try {
        (void)read_corpus(path, needed);
    } catch (BadValue const& failure) {
        return failure.what();
    }
    return "accepted";
}

TEST(data, a_file_is_read_as_it_is) {
    ScratchFolder const folder;
    write_text(folder.file("text"), std::string("one\0two", 7));
    Corpus const corpus = read_corpus(folder.file("text"), 4);
    EXPECT_EQ(tokens_as_text(corpus), std::string("one\0two", 7));
    EXPECT_EQ(corpus.files, 1);
}

TEST(data, a_folder_is_its_text_files_in_the_order_of_their_paths) {
    ScratchFolder const folder;
    std::filesystem::create_directories(folder.file("b/deep"));
    write_text(folder.file("c"), "C");
    write_text(folder.file("a"), "A");
    write_text(folder.file("b/deep/x"), "B");
    write_text(folder.file("b/packed"), std::string("\0\1", 2));
    std::filesystem::create_symlink(folder.file("a"), folder.file("z"));
    ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
    Corpus const corpus = read_corpus(folder.path(), 1);
    EXPECT_EQ(tokens_as_text(corpus), "ABC");
    EXPECT_EQ(corpus.files, 3);
}

TEST(data, no_more_is_read_than_the_limit) {
    ScratchFolder const folder;
    write_text(folder.file("long"), std::string(kCorpusLimitBytes + 100, 'x'));
    Corpus const corpus = read_corpus(folder.path(), 1);
    EXPECT_EQ(static_cast<std::int64_t>(corpus.bytes.size()), kCorpusLimitBytes);
}

TEST(data, what_cannot_be_used_is_refused_with_its_path) {
    ScratchFolder const folder;
    write_text(folder.file("empty"), "");
    write_text(folder.file("short"), "12345");
    ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
    EXPECT_EQ(
        data_refusal(folder.file("no")),
        "--data " + folder.file("no") + ": No such file or directory"
    );
    EXPECT_EQ(
        data_refusal(folder.file("empty")),
        "--data " + folder.file("empty") + ": empty, or holds no text"
    );
    EXPECT_NE(
        data_refusal(folder.file("short"), 6).find("has 5 bytes of text, one sample takes 6"),
        std::string::npos
    );
    EXPECT_NE(
        data_refusal(folder.file("pipe")).find("neither a file nor a folder"), std::string::npos
    );
    std::filesystem::remove(folder.file("short"));
    EXPECT_NE(data_refusal(folder.path()).find("empty, or holds no text"), std::string::npos);
}

TEST(data, this_machine_has_text_of_its_own_and_it_is_the_same_twice) {
    Corpus const first = read_corpus("", 1024);
    Corpus const second = read_corpus("", 1024);
    EXPECT_GE(first.bytes.size(), 1024U);
    EXPECT_EQ(first.fingerprint, second.fingerprint);
    EXPECT_EQ(first.source, second.source);
}

TEST(data, a_batch_depends_on_its_key_alone_and_targets_follow_inputs) {
    Corpus const corpus = small_corpus();
    std::vector<std::int64_t> inputs(3 * 5);
    std::vector<std::int64_t> targets(3 * 5);
    draw_batch(corpus, {.seed = 1, .step = 2, .micro_batch = 3}, 5, inputs, targets);
    for (std::size_t at = 0; at < inputs.size(); ++at) {
        if (at % 5 != 4) {
            EXPECT_EQ(targets[at], inputs[at + 1]);
        }
    }
    std::vector<std::int64_t> again(3 * 5);
    std::vector<std::int64_t> other(3 * 5);
    draw_batch(corpus, {.seed = 1, .step = 2, .micro_batch = 3}, 5, again, targets);
    draw_batch(corpus, {.seed = 1, .step = 3, .micro_batch = 3}, 5, other, targets);
    EXPECT_EQ(inputs, again);
    EXPECT_NE(inputs, other);
}

TEST(data, what_is_held_out_is_never_drawn_for_training) {
    Corpus corpus;
    for (int at = 0; at < 100; ++at) {
        corpus.bytes.push_back(static_cast<std::uint8_t>(at));
    }
    hold_out_a_tenth(corpus, 4);
    EXPECT_EQ(corpus.held_out_bytes, 10);
    std::vector<std::int64_t> inputs(1000 * 3);
    std::vector<std::int64_t> targets(1000 * 3);
    draw_batch(corpus, {}, 3, inputs, targets);
    EXPECT_EQ(*std::min_element(inputs.begin(), inputs.end()), 0);
    EXPECT_EQ(*std::max_element(targets.begin(), targets.end()), 89);
    draw_batch(corpus, {.held_out = true}, 3, inputs, targets);
    EXPECT_EQ(*std::min_element(inputs.begin(), inputs.end()), 90);
    EXPECT_EQ(*std::max_element(targets.begin(), targets.end()), 99);
}

TEST(data, a_text_too_short_for_two_samples_holds_nothing_out) {
    Corpus corpus;
    corpus.bytes.assign(7, 1);
    EXPECT_THROW(hold_out_a_tenth(corpus, 4), BadValue);
    corpus.bytes.assign(8, 1);
    hold_out_a_tenth(corpus, 4);
    EXPECT_EQ(corpus.held_out_bytes, 4);
}

TEST(data, the_shortest_text_gives_its_only_piece) {
    Corpus corpus;
    corpus.bytes = {5, 6, 7};
    std::vector<std::int64_t> inputs(2);
    std::vector<std::int64_t> targets(2);
    draw_batch(corpus, {}, 2, inputs, targets);
    EXPECT_EQ(inputs, (std::vector<std::int64_t>{5, 6}));
    EXPECT_EQ(targets, (std::vector<std::int64_t>{6, 7}));
}

TEST(random, below_reaches_both_ends_and_nothing_else) {
    EXPECT_EQ(below(0, 10), 0);
    EXPECT_EQ(below(UINT64_MAX, 10), 9);
    EXPECT_EQ(below(UINT64_MAX, 1), 0);
}

TEST(random, keys_that_differ_in_one_part_give_other_numbers) {
    EXPECT_NE(mixed({1, 2, 3}), mixed({1, 3, 2}));
    EXPECT_NE(mixed({0, 0}), mixed({0, 1}));
    EXPECT_EQ(mixed({4, 5}), mixed({4, 5}));
}

}  // namespace
}  // namespace spillway::train
