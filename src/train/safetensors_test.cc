// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/safetensors.h"

#include "train/test_support.h"

#include <gtest/gtest.h>

namespace spillway::train {
namespace {

std::function<std::span<std::byte const>()> bytes_of(std::string_view text) {
    return [text] { return std::as_bytes(std::span{text.data(), text.size()}); };
}

// A file of any header and data, whether right or not.
std::string file_of(std::string const& header, std::string const& data) {
    std::string text;
    for (std::size_t byte = 0; byte < 8; ++byte) {
        text += static_cast<char>((header.size() >> (8 * byte)) & 0xffU);
    }
    return text + header + data;
}

std::string refusal(std::string const& text) {
    ScratchFolder const folder;
    write_text(folder.file("t"), text);
    try {
        (void)read_index(InputFile(folder.file("t")));
    } catch (FileError const& failure) {
        return failure.what();
    }
    return "accepted";
}

TEST(safetensors, written_then_read_gives_the_same_tensors) {
    ScratchFolder const folder;
    std::string const path = folder.file("t");
    write_tensors(
        path,
        {{"b", "F32", {2, 1}, bytes_of("12345678")},
         {"a", "U8", {3}, bytes_of("xyz")},
         {"none", "F32", {0, 4}, bytes_of("")}}
    );
    InputFile const file(path);
    TensorIndex const index = read_index(file);
    ASSERT_EQ(index.entries.size(), 3U);
    EXPECT_EQ(index.entries[0], (TensorEntry{"b", "F32", {2, 1}, 0, 8}));
    EXPECT_EQ(index.entries[1], (TensorEntry{"a", "U8", {3}, 8, 11}));
    EXPECT_EQ(index.data_begin % 8, 0);
    std::string data(3, ' ');
    file.read(index.data_begin + index.entries[1].begin, std::as_writable_bytes(std::span{data}));
    EXPECT_EQ(data, "xyz");
}

TEST(safetensors, a_tensor_with_other_bytes_than_its_shape_says_is_not_written) {
    ScratchFolder const folder;
    std::vector<TensorToWrite> const wrong{{"a", "F32", {3}, bytes_of("12345678")}};
    EXPECT_THROW(write_tensors(folder.file("t"), wrong), FileError);
}

TEST(safetensors, an_existing_file_is_not_overwritten) {
    ScratchFolder const folder;
    write_text(folder.file("t"), "mine");
    EXPECT_THROW(write_tensors(folder.file("t"), {}), FileError);
    EXPECT_EQ(read_text(folder.file("t")), "mine");
}

TEST(safetensors, the_hash_is_that_of_the_file) {
    ScratchFolder const folder;
    std::string const hash = write_tensors(folder.file("t"), {{"a", "U8", {3}, bytes_of("xyz")}});
    EXPECT_EQ(InputFile(folder.file("t")).hash(), hash);
    EXPECT_EQ(hash.size(), 16U);
}

TEST(safetensors, every_cut_of_a_file_is_refused) {
    ScratchFolder const folder;
    write_tensors(folder.file("t"), {{"a", "F32", {2}, bytes_of("12345678")}});
    std::string const whole = read_text(folder.file("t"));
    ASSERT_EQ(refusal(whole), "accepted");
    for (std::size_t length = 0; length < whole.size(); ++length) {
        EXPECT_NE(refusal(whole.substr(0, length)), "accepted") << "cut to " << length;
    }
    EXPECT_NE(refusal(whole + "x"), "accepted");
}

TEST(safetensors, every_flipped_byte_is_refused_or_leaves_a_sound_index) {
    ScratchFolder const folder;
    write_tensors(folder.file("t"), {{"a", "F32", {2}, bytes_of("12345678")}});
    std::string const whole = read_text(folder.file("t"));
    for (std::size_t at = 0; at < whole.size(); ++at) {
        for (unsigned const mask : {0x01U, 0x04U, 0x80U, 0xffU}) {
            std::string text = whole;
            text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ mask);
            (void)refusal(text);  // no crash, no other exception
        }
    }
}

TEST(safetensors, headers_that_lie_are_refused) {
    std::string const eight = "12345678";
    auto const one = [](std::string const& entry) { return R"({"a":)" + entry + "}"; };
    EXPECT_EQ(
        refusal(file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), eight)),
        "accepted"
    );
    for (std::string const entry :
         {R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})",
          R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})",
          R"({"dtype":"F32","shape":[2],"data_offsets":[1,9]})",
          R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})",
          R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})",
          R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})",
          R"({"dtype":"F32","shape":"2","data_offsets":[0,8]})",
          R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})",
          R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})",
          R"({"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]})",
          R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})",
          R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})",
          R"({"dtype":"F32","shape":[2]})",
          R"([])",
          R"(null)"}) {
        EXPECT_NE(refusal(file_of(one(entry), eight)), "accepted") << entry;
    }
}

TEST(safetensors, overlaps_gaps_and_repeated_names_are_refused) {
    auto const two = [](std::string const& second, std::string const& begin, std::string const& end
                     ) {
        return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},")" + second +
               R"(":{"dtype":"U8","shape":[4],"data_offsets":[)" + begin + "," + end + "]}}";
    };
    EXPECT_EQ(refusal(file_of(two("b", "4", "8"), "12345678")), "accepted");
    EXPECT_NE(refusal(file_of(two("b", "3", "7"), "1234567")), "accepted");
    EXPECT_NE(refusal(file_of(two("b", "0", "4"), "1234")), "accepted");
    EXPECT_NE(refusal(file_of(two("b", "5", "9"), "123456789")), "accepted");
    EXPECT_NE(refusal(file_of(two("a", "4", "8"), "12345678")), "accepted");
}

TEST(safetensors, a_header_length_beyond_the_file_is_refused_without_reading_it) {
    EXPECT_NE(refusal(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)), "accepted");
    EXPECT_NE(refusal(std::string("\0\0\0\0\0\0\0\0", 8)), "accepted");
}

TEST(files, the_folder_of_a_path) {
    EXPECT_EQ(folder_of("a/b"), "a");
    EXPECT_EQ(folder_of("a/b/"), "a");
    EXPECT_EQ(folder_of("b"), ".");
    EXPECT_EQ(folder_of("/b"), "/");
    EXPECT_EQ(folder_of("/"), "/");
    EXPECT_EQ(folder_of(""), ".");
}

TEST(files, a_text_file_is_replaced_whole_and_nothing_stays_beside_it) {
    ScratchFolder const folder;
    write_text(folder.file("t"), "old");
    write_text_file(folder.file("t"), "new");
    EXPECT_EQ(read_text(folder.file("t")), "new");
    auto const begin = std::filesystem::directory_iterator(folder.path());
    EXPECT_EQ(std::distance(begin, std::filesystem::directory_iterator{}), 1);
}

}  // namespace
}  // namespace spillway::train
