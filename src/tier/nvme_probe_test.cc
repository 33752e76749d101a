// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/nvme_probe.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// A direct file here, or nothing where this machine lacks io_uring or O_DIRECT.
std::optional<BlockFile> file_here(std::int64_t size_bytes) {
    Result<BlockFile> file = BlockFile::make({.folder = "."});
    if (!file.ok() || !file->direct() || !file->grow(size_bytes).ok()) {
        return std::nullopt;
    }
    if (!Ring::make(file->fd(), 4).ok()) {
        return std::nullopt;
    }
    return std::optional<BlockFile>(std::move(file).value());
}

TEST(NvmeProbeTest, rates_are_positive_and_the_file_keeps_its_size) {
    std::optional<BlockFile> const file = file_here(8 * kMiB);
    if (!file) {
        GTEST_SKIP() << "no io_uring or no O_DIRECT in the working folder";
    }
    Result<IoRates> const rates = measure_io(*file, {kMiB, 4}, 2'000'000);
    ASSERT_TRUE(rates.ok()) << rates.error().message();
    EXPECT_GT(rates->write_bytes_per_s, 0);
    EXPECT_GT(rates->read_bytes_per_s, 0);
    EXPECT_EQ(file->size_bytes(), 8 * kMiB);
}

TEST(NvmeProbeTest, a_file_shorter_than_a_block_cannot_be_measured) {
    std::optional<BlockFile> const file = file_here(4096);
    if (!file) {
        GTEST_SKIP() << "no io_uring or no O_DIRECT in the working folder";
    }
    EXPECT_FALSE(measure_io(*file, {kMiB, 4}, 1'000'000).ok());
}

TEST(NvmeProbeTest, the_probe_answers_with_a_shape_it_tries) {
    std::optional<BlockFile> const file = file_here(64 * kMiB);
    if (!file) {
        GTEST_SKIP() << "no io_uring or no O_DIRECT in the working folder";
    }
    IoShape const shape = probe_io(*file);
    EXPECT_TRUE(shape.queue_depth == 8 || shape.queue_depth == 16 || shape.queue_depth == 32);
    EXPECT_TRUE(shape.piece_bytes >= kMiB / 2 && shape.piece_bytes <= 2 * kMiB);
}

TEST(NvmeProbeTest, a_disk_is_probed_once) {
    std::optional<BlockFile> first = file_here(4096);
    std::optional<BlockFile> second = file_here(4096);
    if (!first || !second) {
        GTEST_SKIP() << "no io_uring or no O_DIRECT in the working folder";
    }
    IoShape const shape = probe_io_once(*first);
    EXPECT_EQ(probe_io_once(*second), shape);
    EXPECT_EQ(first->size_bytes(), 64 * kMiB) << "it was measured";
    EXPECT_EQ(second->size_bytes(), 4096) << "it was not";
}

}  // namespace
}  // namespace spillway
