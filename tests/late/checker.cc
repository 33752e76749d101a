// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "late/checker.h"

#include "late/runtime.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace late {

namespace {

constexpr std::size_t kMostReports = 10'000;  // a broken loop need not fill the memory

}  // namespace

/// Makes `at` a border between cells.
void Checker::split(std::uintptr_t at) {
    auto next = cells_.upper_bound(at);
    if (next == cells_.begin()) {
        return;
    }
    auto const cell = std::prev(next);
    if (cell->first < at && at < cell->second.end) {
        Cell upper = cell->second;
        cell->second.end = at;
        cells_.emplace_hint(next, at, std::move(upper));
    }
}

void Checker::report(
    Access const& before, bool wrote, Access const& now, bool write, Report where
) {
    where.first = {*before.op, actor_name(before.actor), wrote};
    where.second = {*now.op, actor_name(now.actor), write};
    // The cells of one pair of accesses are one report.
    if (!reports_.empty() && reports_.back().first == where.first &&
        reports_.back().second == where.second && reports_.back().end == where.begin) {
        reports_.back().end = where.end;
    } else if (reports_.size() < kMostReports) {
        reports_.push_back(std::move(where));
    }
}

void Checker::check(
    Moment const& moment, Access const& now, bool write, Cells::const_iterator cell
) {
    Report const where{
        .begin = cell->first,
        .end = cell->second.end,
        .kind = cell->second.freed ? Report::Kind::use_after_free : Report::Kind::race};
    auto const unordered = [&](Access const& before) {
        return before.tick > moment.clock.of(before.actor);
    };
    Access const& last = cell->second.write;
    if (cell->second.freed || (last.tick != 0 && unordered(last))) {
        report(last, true, now, write, where);
    }
    if (write && !cell->second.freed) {
        for (Access const& read : cell->second.reads) {
            if (unordered(read)) {
                report(read, false, now, true, where);
            }
        }
    }
}

bool Checker::access(Moment const& moment, std::string_view op, std::span<Use const> uses) {
    Access const now{moment.actor, moment.tick, &*names_.emplace(op).first};
    bool all_alive = true;
    for (Use const& use : uses) {
        bool alive = true;
        split(use.begin);
        split(use.end);
        auto cell = cells_.lower_bound(use.begin);
        for (std::uintptr_t at = use.begin; at < use.end; at = cell->second.end, ++cell) {
            if (cell == cells_.end() || cell->first > at) {
                std::uintptr_t const end =
                    cell == cells_.end() ? use.end : std::min(use.end, cell->first);
                cell = cells_.emplace_hint(cell, at, Cell{.end = end});
            }
            check(moment, now, use.write, cell);
            alive = alive && !cell->second.freed;
            if (!use.write) {
                // Who is ordered after this read is ordered after all that it knows of.
                std::erase_if(cell->second.reads, [&](Access const& read) {
                    return read.tick <= moment.clock.of(read.actor);
                });
                cell->second.reads.push_back(now);
            }
        }
        if (use.write && alive && use.begin < use.end) {
            forget(use.begin, use.end);
            cells_[use.begin] = Cell{.end = use.end, .write = now};
        }
        all_alive = all_alive && alive;
    }
    return all_alive;
}

void Checker::freed(Use const& range) {
    split(range.begin);
    split(range.end);
    for (auto cell = cells_.lower_bound(range.begin);
         cell != cells_.end() && cell->first < range.end;
         ++cell) {
        cell->second.freed = true;
    }
}

void Checker::forget(std::uintptr_t begin, std::uintptr_t end) {
    split(begin);
    split(end);
    cells_.erase(cells_.lower_bound(begin), cells_.lower_bound(end));
}

void Checker::clear() {
    cells_.clear();
    reports_.clear();
}

}  // namespace late
