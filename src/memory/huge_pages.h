// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which stretches of an arena lie on huge pages. A disk moves one huge page as one segment where
// small pages are 512, and compute misses the TLB less. The kernel fills a huge page as a whole, so
// only a granule whose every page counts as resident may be one: that keeps the arena's bound
// exact.
#pragma once

#include "memory/extent_map.h"
#include "memory/slab_table.h"

#include <cstddef>
#include <cstdint>
#include <set>

namespace spillway {

/// A huge page of x86-64, and its pages.
inline constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;
inline constexpr std::int64_t kHugePagePages = kHugePageBytes / kArenaPageBytes;

/// Thread  not thread-safe
class HugePages {
  public:
    /// Page 0 lies at `first`, a multiple of kHugePageBytes.
    explicit HugePages(std::byte* first) : first_(first) {}

    /// Pages of `run`, none of them resident, are about to be used, all of them: its whole granules
    /// become huge pages when they are touched, where the system has some. A hint.
    void use(PageRun run);

    /// Pages of `run` are about to be given back to the system: no granule that has one of them may
    /// be filled as a whole again.
    void give_up(PageRun run);

    /// Granules that may be huge now.
    [[nodiscard]] std::int64_t granules() const { return std::ssize(granules_); }

  private:
    [[nodiscard]] bool advise(std::int64_t granule, std::int64_t end, int advice) const;

    std::byte* first_;
    std::set<std::int64_t> granules_;  ///< by number; each wholly resident, or about to be
};

}  // namespace spillway
