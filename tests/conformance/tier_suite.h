// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What every tier must do, written once (the cases are in tier_suite_test.cc). A new tier adds an
// INSTANTIATE_TEST_SUITE_P with one TierUnderTest and inherits every case.
#pragma once

#include "base/result.h"
#include "tier/tier.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct TierUnderTest {
    std::string name;
    std::int64_t block_bytes = 0;  ///< of one I/O: sizes around it are tried
    /// Opens the tier with room for `capacity_bytes`.
    std::function<Result<std::unique_ptr<Tier>>(std::int64_t capacity_bytes)> open;
    /// Why this machine cannot have it, if it cannot.
    std::function<std::optional<std::string>()> missing = [] {
        return std::optional<std::string>();
    };
};

/// "tier/nvme" instead of a dump of bytes in test names.
void PrintTo(TierUnderTest const& tier, std::ostream* out);
[[nodiscard]] std::string name_of_param(testing::TestParamInfo<TierUnderTest> const& info);

class TierSuite : public testing::TestWithParam<TierUnderTest> {
  protected:
    void SetUp() override;
    /// Replaces `tier_`; the test ends when it cannot be opened.
    void open(std::int64_t capacity_bytes);

    std::unique_ptr<Tier> tier_;
};

/// A `done` to hand to a tier, and the wait for it.
class Ending {
  public:
    [[nodiscard]] TierDone done();
    [[nodiscard]] Result<void> wait();

  private:
    std::shared_ptr<std::promise<Result<void>>> promise_ =
        std::make_shared<std::promise<Result<void>>>();
};

[[nodiscard]] Result<void> store_now(
    Tier& tier, Reservation const& room, std::span<std::byte const> from
);
[[nodiscard]] Result<void> load_now(Tier& tier, Reservation const& room, std::span<std::byte> to);

/// Bytes that differ by seed and by place.
[[nodiscard]] std::vector<std::byte> noise(std::int64_t size_bytes, std::uint64_t seed);

/// Page-aligned bytes with an offset into the page.
class PageBytes {
  public:
    PageBytes(std::int64_t size_bytes, std::int64_t misalign_bytes);
    [[nodiscard]] std::span<std::byte> span();
    void fill(std::uint64_t seed);

  private:
    std::int64_t size_bytes_;
    std::int64_t first_;
    std::vector<std::byte> memory_;
};

/// An empty folder on the disk that the tests run on; removed at the end.
class ScratchFolder {
  public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(ScratchFolder const&) = delete;
    ScratchFolder& operator=(ScratchFolder const&) = delete;
    [[nodiscard]] std::string const& path() const { return path_; }
    [[nodiscard]] std::vector<std::string> names() const;

  private:
    std::string path_;
    int owner_ = 0;  ///< the process that made it
};

[[nodiscard]] std::int64_t open_descriptors();

#define SPILLWAY_EXPECT_OK(expression)                                          \
    do {                                                                        \
        auto const& spillway_result = (expression);                             \
        EXPECT_TRUE(spillway_result.ok()) << spillway_result.error().message(); \
    } while (false)

}  // namespace spillway
