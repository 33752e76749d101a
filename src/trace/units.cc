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

    /// By modules, if there are any.
    Units find() {
        by_modules();
        if (units_.names.empty()) {
            by_repeats();
        }
        give_points();
        return std::move(units_);
    }

    Units find_repeats() {
        by_repeats();
        give_points();
        return std::move(units_);
    }

  private:
    /// What is below a number of a path: "h.0".
    struct Part {
        std::int64_t bytes = 0;
        std::int64_t numbered_bytes = 0;  ///< of it below a further number
        std::set<std::string> inside{};   ///< the rest of its values' paths
        std::set<std::string> parts{};    ///< below the next number
        bool is_stage = false;
    };

    void by_modules() {
        std::vector<std::vector<std::size_t>> const ends = numbers_with_siblings();
        for (std::size_t i = 0; i < trace_.values.size(); ++i) {
            add_to_parts(trace_.values[i], ends[i]);
        }
        for (auto& [name, part] : parts_) {
            part.is_stage = is_of_layers(part);
        }
        std::map<std::string, std::size_t> numbers;
        for (std::size_t i = 0; i < trace_.values.size(); ++i) {
            if (ends[i].empty()) {
                continue;
            }
            std::string const& module = trace_.values[i].module;
            std::size_t at = 0;
            while (at + 1 < ends[i].size() && parts_.at(module.substr(0, ends[i][at])).is_stage) {
                ++at;
            }
            auto const [unit, is_new] =
                numbers.emplace(module.substr(0, ends[i][at]), units_.names.size());
            if (is_new) {
                units_.names.push_back(unit->first);
            }
            units_.of_value[i] = unit->second;
        }
    }

    /// By value: where the numbers of its path end that have siblings.
    [[nodiscard]] std::vector<std::vector<std::size_t>> numbers_with_siblings() const {
        std::map<std::string, std::set<std::string>> siblings;
        std::vector<std::vector<std::size_t>> ends;
        for (TraceValue const& value : trace_.values) {
            ends.push_back(ends_of_numbers(value.module));
            for (std::size_t const end : ends.back()) {
                siblings[parent_of(value.module, end)].insert(value.module.substr(0, end));
            }
        }
        for (std::size_t i = 0; i < ends.size(); ++i) {
            std::string const& module = trace_.values[i].module;
            std::erase_if(ends[i], [&](std::size_t end) {
                return siblings[parent_of(module, end)].size() < 2;
            });
        }
        return ends;
    }

    void add_to_parts(TraceValue const& value, std::vector<std::size_t> const& ends) {
        for (std::size_t k = 0; k < ends.size(); ++k) {
            Part& part = parts_[value.module.substr(0, ends[k])];
            part.bytes += value.size_bytes;
            part.inside.insert(value.module.substr(ends[k]));
            if (k + 1 < ends.size()) {
                part.numbered_bytes += value.size_bytes;
                part.parts.insert(value.module.substr(0, ends[k + 1]));
            }
        }
    }

    /// A stage, whose bytes are nearly all in numbered parts, most of which have modules and look
    /// alike; a layer has experts and attention, or an own sequence of modules.
    [[nodiscard]] bool is_of_layers(Part const& part) const {
        std::map<std::set<std::string>, std::pair<int, std::int64_t>> alike;
        for (std::string const& inner : part.parts) {
            Part const& one = parts_.at(inner);
            if (one.inside != std::set<std::string>{""}) {
                auto& [count, bytes] = alike[one.inside];
                ++count;
                bytes += one.bytes;
            }
        }
        std::int64_t bytes_alike = 0;
        for (auto const& [inside, of] : alike) {
            bytes_alike += of.first > 1 ? of.second : 0;
        }
        return part.numbered_bytes >= part.bytes / 10 * 9 && bytes_alike > part.bytes / 2;
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
    std::map<std::string, Part> parts_;
    Units units_;
};

/// Values that have a unit.
std::size_t covered(Units const& units) {
    return static_cast<std::size_t>(std::count_if(
        units.of_value.begin(), units.of_value.end(), [](Unit unit) { return unit.has_value(); }
    ));
}

}  // namespace

Units units_of(Trace const& trace) {
    return Finder(trace).find();
}

Units units_of_layers(Trace const& trace) {
    Units modules = units_of(trace);
    if (2 * covered(modules) >= trace.values.size()) {
        return modules;
    }
    Units repeats = Finder(trace).find_repeats();
    return covered(repeats) > covered(modules) ? repeats : modules;
}

}  // namespace spillway
