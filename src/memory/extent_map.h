// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which pages of a range are used, free and resident ("warm"), or free and not resident ("cold").
// Bookkeeping alone: it touches no memory and makes no system call.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace spillway {

enum class PageState : std::uint8_t { used, warm, cold };

/// Pages [first, first + pages).
struct PageRun {
    std::int64_t first = 0;
    std::int64_t pages = 0;

    bool operator==(PageRun const&) const = default;
};

/// A place for a block, and which of its pages are not resident yet.
struct PagePlace {
    std::int64_t first = -1;  ///< -1: there is none
    std::vector<PageRun> cold{};

    [[nodiscard]] std::int64_t cold_pages() const;
};

/// Thread  not thread-safe
class ExtentMap {
  public:
    /// The range [first, first + pages), all cold. Where there is a choice, cold pages are taken
    /// from a multiple of `granule` pages on, and whole granules are made cold.
    ExtentMap(std::int64_t first, std::int64_t pages, std::int64_t granule = 1);

    /// Takes `pages` (> 0) adjacent free pages, by preference: the smallest warm run that holds
    /// them; one of the largest warm runs with cold pages beside it; the smallest cold run; any.
    [[nodiscard]] PagePlace take(std::int64_t pages);

    /// Makes a used extent, named by its first page, warm (checked). Returns its pages.
    std::int64_t give_back(std::int64_t first);

    /// The pages of the used extent that starts at `first` (checked).
    [[nodiscard]] std::int64_t size_of(std::int64_t first) const;

    /// Makes `pages` warm pages cold, or all if there are fewer, or up to a granule more: of the
    /// smallest run that has so many, else of the largest ones. Returns which, for the caller to
    /// give back to the system before it takes anything else.
    [[nodiscard]] std::vector<PageRun> cool(std::int64_t pages);

    /// One past the highest page that was ever taken.
    [[nodiscard]] std::int64_t highest_page() const { return highest_page_; }

    /// One past the highest page of a used extent; the range's first page where none is used.
    [[nodiscard]] std::int64_t end_of_used() const;

    /// Aborts unless extents cover the range, free neighbours are merged and the indexes agree.
    void check() const;

  private:
    struct Extent {
        std::int64_t pages = 0;
        PageState state = PageState::cold;
    };
    using Extents = std::map<std::int64_t, Extent>;  ///< by first page; they cover the range
    using BySize = std::set<std::pair<std::int64_t, std::int64_t>>;  ///< (pages, first)

    [[nodiscard]] BySize& index_of(PageState state) {
        return state == PageState::warm ? warm_ : cold_;
    }
    [[nodiscard]] PageRun place_for(std::int64_t pages) const;
    [[nodiscard]] PageRun place_around(Extents::const_iterator warm, std::int64_t pages) const;
    [[nodiscard]] PageRun place_anywhere(std::int64_t pages) const;
    [[nodiscard]] std::vector<PageRun> mark(PageRun run, PageState state);
    [[nodiscard]] PageRun part_to_cool(PageRun warm, std::int64_t pages) const;
    [[nodiscard]] PageRun merged(PageRun run, PageState state);
    void insert(std::int64_t first, std::int64_t pages, PageState state);
    void erase(Extents::iterator extent);

    std::int64_t const granule_;
    std::int64_t highest_page_;
    Extents extents_;
    BySize warm_;
    BySize cold_;
};

}  // namespace spillway
