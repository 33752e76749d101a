// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The happens-before checker. Each access is declared when it is enqueued; two that overlap, one of
// them a write, without an order between them, are a race, whatever the schedule does.
#pragma once

#include "late/clocks.h"
#include "late/late.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace late {

/// A byte range that a task reads or writes.
struct Use {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool write = false;
};

/// Who accesses: `clock` knows all that is ordered before, and `tick` is its own.
struct Moment {
    Actor actor = kHost;
    std::uint64_t tick = 0;
    Clock const& clock;
};

/// Thread  not thread-safe: the runtime's mutex guards it
class Checker {
  public:
    /// Checks the accesses of one task against all before it, and remembers them.
    /// Returns false where one of them is to memory that has been freed.
    bool access(Moment const& moment, std::string_view op, std::span<Use const> uses);

    /// The range is dead: each later access is a use after free, ordered or not.
    void freed(Use const& range);

    /// Forgets what is known of a range: its address may come again.
    void forget(std::uintptr_t begin, std::uintptr_t end);

    /// Forgets all accesses and reports.
    void clear();

    [[nodiscard]] std::vector<Report> const& reports() const { return reports_; }

  private:
    struct Access {
        Actor actor = kHost;
        std::uint64_t tick = 0;  ///< 0: none
        std::string const* op = nullptr;
    };
    /// What is known of the bytes from its key in the map to `end`.
    struct Cell {
        std::uintptr_t end = 0;
        Access write{};
        std::vector<Access> reads{};  ///< since that write
        bool freed = false;
    };
    using Cells = std::map<std::uintptr_t, Cell>;

    void split(std::uintptr_t at);
    void check(Moment const& moment, Access const& now, bool write, Cells::const_iterator cell);
    void report(Access const& before, bool wrote, Access const& now, bool write, Report where);

    Cells cells_;
    std::unordered_set<std::string> names_;  ///< of operators; their addresses stay
    std::vector<Report> reports_;
};

}  // namespace late
