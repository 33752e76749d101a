// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/extent_map.h"

#include "base/assert.h"
#include "base/units.h"

#include <algorithm>
#include <iterator>

namespace spillway {

namespace {

constexpr int kWarmRunsTried = 8;  ///< the largest ones: they save the most page faults

}  // namespace

std::int64_t PagePlace::cold_pages() const {
    std::int64_t pages = 0;
    for (PageRun const& run : cold) {
        pages += run.pages;
    }
    return pages;
}

ExtentMap::ExtentMap(std::int64_t first, std::int64_t pages, std::int64_t granule)
    : granule_(granule), highest_page_(first) {
    SPILLWAY_ASSERT(first >= 0 && pages > 0 && granule > 0, "a range has pages");
    insert(first, pages, PageState::cold);
}

void ExtentMap::insert(std::int64_t first, std::int64_t pages, PageState state) {
    extents_.emplace(first, Extent{pages, state});
    if (state != PageState::used) {
        index_of(state).emplace(pages, first);
    }
}

void ExtentMap::erase(Extents::iterator extent) {
    auto const [pages, state] = extent->second;
    if (state != PageState::used) {
        index_of(state).erase({pages, extent->first});
    }
    extents_.erase(extent);
}

// Gives the pages of `run`, which lie in one or more free extents or are one used extent, the state
// `state`. Returns those that were cold.
std::vector<PageRun> ExtentMap::mark(PageRun run, PageState state) {
    std::int64_t const end = run.first + run.pages;
    std::vector<PageRun> cold;
    auto extent = std::prev(extents_.upper_bound(run.first));
    while (extent != extents_.end() && extent->first < end) {
        std::int64_t const first = extent->first;
        std::int64_t const last = first + extent->second.pages;
        PageState const before = extent->second.state;
        auto const next = std::next(extent);
        erase(extent);
        extent = next;
        if (before == PageState::cold) {
            std::int64_t const from = std::max(first, run.first);
            cold.push_back({from, std::min(last, end) - from});
        }
        if (first < run.first) {
            insert(first, run.first - first, before);
        }
        if (last > end) {
            insert(end, last - end, before);
        }
    }
    if (state != PageState::used) {
        run = merged(run, state);
    }
    insert(run.first, run.pages, state);
    return cold;
}

// `run`, which is in no extent now, with the neighbours that have the same state: they are erased.
PageRun ExtentMap::merged(PageRun run, PageState state) {
    auto const after = extents_.find(run.first + run.pages);
    if (after != extents_.end() && after->second.state == state) {
        run.pages += after->second.pages;
        erase(after);
    }
    auto const beyond = extents_.lower_bound(run.first);
    if (beyond != extents_.begin()) {
        auto const before = std::prev(beyond);
        if (before->second.state == state) {
            run = {before->first, before->second.pages + run.pages};
            erase(before);
        }
    }
    return run;
}

PagePlace ExtentMap::take(std::int64_t pages) {
    PageRun const run = place_for(pages);
    if (run.pages == 0) {
        return {};
    }
    highest_page_ = std::max(highest_page_, run.first + pages);
    return {run.first, mark(run, PageState::used)};
}

// Zero pages where there is no place.
PageRun ExtentMap::place_for(std::int64_t pages) const {
    SPILLWAY_ASSERT(pages > 0, "a block has at least one page");
    if (auto const best = warm_.lower_bound({pages, 0}); best != warm_.end()) {
        return {best->second, pages};
    }
    int tried = 0;
    for (auto warm = warm_.rbegin(); warm != warm_.rend() && tried < kWarmRunsTried; ++warm) {
        PageRun const run = place_around(extents_.find(warm->second), pages);
        if (run.pages > 0) {
            return run;
        }
        ++tried;
    }
    if (auto best = cold_.lower_bound({pages + granule_ - 1, 0}); best != cold_.end()) {
        return {round_up(best->second, granule_), pages};
    }
    return place_anywhere(pages);
}

// `pages` pages that include the warm extent and free pages beside it.
PageRun ExtentMap::place_around(Extents::const_iterator warm, std::int64_t pages) const {
    auto const is_free = [](auto extent) { return extent->second.state != PageState::used; };
    std::int64_t first = warm->first;
    std::int64_t end = first + warm->second.pages;
    for (auto after = std::next(warm); end - first < pages && after != extents_.end(); ++after) {
        if (!is_free(after)) {
            break;
        }
        end = after->first + after->second.pages;
    }
    if (end - first >= pages) {
        return {first, pages};
    }
    for (auto before = warm; end - first < pages && before != extents_.begin();) {
        --before;
        if (!is_free(before)) {
            break;
        }
        first = before->first;
    }
    return end - first >= pages ? PageRun{end - pages, pages} : PageRun{};
}

// The lowest run of free pages, warm and cold, that is long enough. Only when addresses are scarce.
PageRun ExtentMap::place_anywhere(std::int64_t pages) const {
    PageRun run;
    for (auto const& [first, extent] : extents_) {
        if (extent.state == PageState::used) {
            run = {};
            continue;
        }
        if (run.pages == 0) {
            run.first = first;
        }
        run.pages += extent.pages;
        if (run.pages >= pages) {
            return {run.first, pages};
        }
    }
    return {};
}

std::int64_t ExtentMap::give_back(std::int64_t first) {
    std::int64_t const pages = size_of(first);
    static_cast<void>(mark({first, pages}, PageState::warm));
    return pages;
}

std::int64_t ExtentMap::size_of(std::int64_t first) const {
    auto const extent = extents_.find(first);
    SPILLWAY_ASSERT(
        extent != extents_.end() && extent->second.state == PageState::used,
        "no live block starts here"
    );
    return extent->second.pages;
}

std::int64_t ExtentMap::end_of_used() const {
    for (auto extent = extents_.rbegin(); extent != extents_.rend(); ++extent) {
        if (extent->second.state == PageState::used) {
            return extent->first + extent->second.pages;
        }
    }
    return extents_.begin()->first;
}

std::vector<PageRun> ExtentMap::cool(std::int64_t pages) {
    std::vector<PageRun> cooled;
    while (pages > 0 && !warm_.empty()) {
        auto const fitting = warm_.lower_bound({pages, 0});
        auto const [length, first] = fitting != warm_.end() ? *fitting : *warm_.rbegin();
        PageRun const run = part_to_cool({first, length}, std::min(pages, length));
        static_cast<void>(mark(run, PageState::cold));
        cooled.push_back(run);
        pages -= run.pages;
    }
    return cooled;
}

// The low end where the pages below are cold already, so that cold runs grow; else the high.
PageRun ExtentMap::part_to_cool(PageRun warm, std::int64_t pages) const {
    std::int64_t const end = warm.first + warm.pages;
    auto const extent = extents_.find(warm.first);
    if (extent != extents_.begin() && std::prev(extent)->second.state == PageState::cold) {
        std::int64_t const last = std::min(round_up(warm.first + pages, granule_), end);
        return {warm.first, last - warm.first};
    }
    std::int64_t const first = std::max((end - pages) / granule_ * granule_, warm.first);
    return {first, end - first};
}

void ExtentMap::check() const {
    std::int64_t end = extents_.begin()->first;
    PageState before = PageState::used;
    std::size_t warm = 0;
    std::size_t cold = 0;
    for (auto const& [first, extent] : extents_) {
        SPILLWAY_ASSERT(first == end && extent.pages > 0, "extents cover the range");
        SPILLWAY_ASSERT(
            extent.state == PageState::used || extent.state != before, "free neighbours are merged"
        );
        warm += extent.state == PageState::warm ? warm_.count({extent.pages, first}) : 0;
        cold += extent.state == PageState::cold ? cold_.count({extent.pages, first}) : 0;
        end = first + extent.pages;
        before = extent.state;
    }
    SPILLWAY_ASSERT(warm == warm_.size() && cold == cold_.size(), "the indexes agree");
}

}  // namespace spillway
