// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/huge_pages.h"

#include "base/log.h"
#include "base/units.h"

#include <sys/mman.h>

namespace spillway {

namespace {

/// Each granule may cost the process two of the 65,530 mappings that Linux allows it.
constexpr std::int64_t kMostGranules = 28'000;

}  // namespace

void HugePages::use(PageRun run) {
    std::int64_t const granule = round_up(run.first, kHugePagePages) / kHugePagePages;
    std::int64_t const end = (run.first + run.pages) / kHugePagePages;
    if (end <= granule || granules() + end - granule > kMostGranules) {
        return;
    }
    if (!advise(granule, end, MADV_HUGEPAGE)) {
        (void)advise(granule, end, MADV_NOHUGEPAGE);  // it may have taken a part
        return;
    }
    for (std::int64_t i = granule; i < end; ++i) {
        granules_.insert(granules_.end(), i);
    }
}

void HugePages::give_up(PageRun run) {
    std::int64_t const end = round_up(run.first + run.pages, kHugePagePages) / kHugePagePages;
    auto at = granules_.lower_bound(run.first / kHugePagePages);
    while (at != granules_.end() && *at < end) {
        std::int64_t const granule = *at;
        std::int64_t next = granule;
        while (at != granules_.end() && *at == next && next < end) {
            at = granules_.erase(at);
            ++next;
        }
        if (!advise(granule, next, MADV_NOHUGEPAGE)) {
            log_once(
                "the system refuses memory mappings (vm.max_map_count); up to 2 MiB each may stay "
                "resident beyond the device budget"
            );
        }
    }
}

bool HugePages::advise(std::int64_t granule, std::int64_t end, int advice) const {
    return ::madvise(
               first_ + granule * kHugePageBytes,
               static_cast<std::size_t>((end - granule) * kHugePageBytes),
               advice
           ) == 0;
}

}  // namespace spillway
