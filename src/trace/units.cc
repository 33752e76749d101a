// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/units.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace spillway {

namespace {

using Unit = std::optional<std::size_t>;

/// Longer repeats are not looked for.
constexpr std::size_t kMostSavesOfUnit = 2000;

bool is_number(std::string_view part) {
    return !part.empty() &&
           std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// The ends of the parts of a path that are numbers: "h.0.mlp.1" has 3 and 9.
std::vector<std::size_t> ends_of_numbers(std::string const& path) {
    std::vector<std::size_t> ends;
    for (std::size_t begin = 0; begin <= path.size();) {
        std::size_t const end = std::min(path.find('.', begin), path.size());
        if (is_number(std::string_view(path).substr(begin, end - begin))) {
            ends.push_back(end);
        }
        begin = end + 1;
    }
    return ends;
}

std::string parent_of(std::string const& path, std::size_t end) {
    std::size_t const dot = path.rfind('.', end - 1);
    return dot == std::string::npos || dot >= end ? "" : path.substr(0, dot);
}

class Finder {
  public:
    explicit Finder(Trace const& trace) : trace_(trace) {
        units_.of_value.resize(trace.values.size());
    }

    Units find() {
        by_modules();
        if (units_.names.empty()) {
            by_repeats();
        }
        give_points();
        return std::move(units_);
    }

  private:
    void by_modules() {
        std::map<std::string, std::set<std::string>> siblings;
        for (TraceValue const& value : trace_.values) {
            for (std::size_t const end : ends_of_numbers(value.module)) {
                siblings[parent_of(value.module, end)].insert(value.module.substr(0, end));
            }
        }
        std::map<std::string, std::size_t> numbers;
        for (std::size_t i = 0; i < trace_.values.size(); ++i) {
            std::string const& module = trace_.values[i].module;
            for (std::size_t const end : ends_of_numbers(module)) {
                if (siblings[parent_of(module, end)].size() < 2) {
                    continue;
                }
                auto const [at, is_new] =
                    numbers.emplace(module.substr(0, end), units_.names.size());
                if (is_new) {
                    units_.names.push_back(at->first);
                }
                units_.of_value[i] = at->second;
                break;
            }
        }
    }

    /// What each save is to look at, as a number: equal where producer, output and size are.
    [[nodiscard]] std::vector<std::size_t> signatures() const {
        std::map<std::tuple<std::string, std::int32_t, std::int64_t>, std::size_t> known;
        std::vector<std::size_t> signatures;
        for (TraceValue const& value : trace_.values) {
            auto const key = std::tuple(value.slot.producer, value.slot.output, value.size_bytes);
            signatures.push_back(known.emplace(key, known.size()).first->second);
        }
        return signatures;
    }

    /// The period whose repeats cover the most saves; of equal ones the shortest.
    void by_repeats() {
        std::vector<std::size_t> const all = signatures();
        std::size_t best_period = 0;
        std::size_t best_begin = 0;
        std::size_t best_count = 0;
        for (std::size_t period = 1; period <= std::min(all.size() / 2, kMostSavesOfUnit);
             ++period) {
            std::size_t run = 0;
            for (std::size_t i = period; i < all.size(); ++i) {
                run = all[i] == all[i - period] ? run + 1 : 0;
                std::size_t const count = run < period ? 0 : (run / period + 1) * period;
                if (count > best_count) {
                    std::tie(best_period, best_count) = std::pair(period, count);
                    best_begin = i + 1 - run - period;
                }
            }
        }
        for (std::size_t i = 0; i < best_count; ++i) {
            std::size_t const unit = i / best_period;
            if (unit == units_.names.size()) {
                units_.names.push_back("repeat." + std::to_string(unit));
            }
            units_.of_value[best_begin + i] = unit;
        }
    }

    [[nodiscard]] Unit unit_of(std::vector<ValueId> const& values) const {
        for (ValueId const id : values) {
            if (units_.of_value[id.index()]) {
                return units_.of_value[id.index()];
            }
        }
        return std::nullopt;
    }

    void give_points() {
        Unit last;
        for (TracePoint const& point : trace_.points) {
            Unit const unit = unit_of(point.phase == Phase::backward ? point.needed : point.saved);
            bool const says_nothing =
                point.phase == Phase::backward ? point.needed.empty() : point.saved.empty();
            last = unit || !says_nothing ? unit : last;
            units_.of_point.push_back(last);
        }
    }

    Trace const& trace_;
    Units units_;
};

}  // namespace

Units units_of(Trace const& trace) {
    return Finder(trace).find();
}

}  // namespace spillway
