// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/trace_table.h"

#include "base/units.h"
#include "trace/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway {

namespace {

constexpr std::size_t kMostRows = 20;  ///< of a list; the rest is summed up

struct Amount {
    std::int64_t values = 0;
    std::int64_t bytes = 0;
    std::int64_t again_bytes = 0;  ///< of these: can be made again

    Amount& operator+=(Amount const& other) {
        values += other.values;
        bytes += other.bytes;
        again_bytes += other.again_bytes;
        return *this;
    }
};

Amount amount_of(TraceValue const& value) {
    return {1, value.size_bytes, value.recipe ? value.size_bytes : 0};
}

std::string share_of(std::int64_t part, std::int64_t whole) {
    double const percent =
        whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
    return fmt::format("{:.0f} %", percent);
}

std::string head_of(Trace const& trace) {
    Amount all;
    for (TraceValue const& value : trace.values) {
        all += amount_of(value);
    }
    std::int64_t duration_ns = 0;
    for (TracePoint const& point : trace.points) {
        duration_ns += point.duration_ns;
    }
    return fmt::format(
        "{}: {} points, {:.3f} s of compute, peak {}\n"
        "{} saved tensors, {}; {} of the bytes can be made again\n",
        trace.name.empty() ? "trace" : trace.name,
        trace.points.size(),
        static_cast<double>(duration_ns) / 1e9,
        format_size(peak_without_moves(trace)),
        all.values,
        format_size(all.bytes),
        share_of(all.again_bytes, all.bytes)
    );
}

struct PhaseSums {
    std::int64_t points = 0;
    std::int64_t duration_ns = 0;
    std::int64_t floor_bytes = 0;
    std::int64_t peak_bytes = 0;
};

std::string phases_of(Trace const& trace) {
    std::array<PhaseSums, kPhases> phases{};
    std::int64_t live_bytes = 0;
    for (TracePoint const& point : trace.points) {
        PhaseSums& sums = phases[static_cast<std::size_t>(point.phase)];
        for (ValueId const id : point.saved) {
            live_bytes += trace.values[id.index()].size_bytes;
        }
        ++sums.points;
        sums.duration_ns += point.duration_ns;
        sums.floor_bytes = std::max(sums.floor_bytes, point.floor_bytes);
        sums.peak_bytes = std::max(sums.peak_bytes, live_bytes + point.floor_bytes);
        for (ValueId const id : point.dropped) {
            live_bytes -= trace.values[id.index()].size_bytes;
        }
    }
    std::string text = fmt::format(
        "\n{:<9}{:>8}{:>10}{:>12}{:>12}\n", "phase", "points", "seconds", "peak", "floor"
    );
    for (std::size_t i = 0; i < kPhases; ++i) {
        if (phases[i].points > 0) {
            text += fmt::format(
                "{:<9}{:>8}{:>10.3f}{:>12}{:>12}\n",
                name_of(static_cast<Phase>(i)),
                phases[i].points,
                static_cast<double>(phases[i].duration_ns) / 1e9,
                format_size(phases[i].peak_bytes),
                format_size(phases[i].floor_bytes)
            );
        }
    }
    return text +
           "peak: of all bytes, if nothing leaves; floor: of those that are no saved tensor\n";
}

/// What a layer saves, and what its parts of the phases take.
struct Layer {
    std::string name;
    Amount saved;
    std::int64_t forward_ns = 0;
    std::int64_t backward_ns = 0;

    Layer& operator+=(Layer const& other) {
        saved += other.saved;
        forward_ns += other.forward_ns;
        backward_ns += other.backward_ns;
        return *this;
    }
};

/// In the order of the forward, those behind the first many as one.
std::vector<Layer> layers_in(Trace const& trace) {
    Units const units = units_of(trace);
    std::vector<Layer> layers;
    for (std::string const& name : units.names) {
        layers.push_back({.name = name, .saved = {}});
    }
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
        if (units.of_value[i]) {
            layers[*units.of_value[i]].saved += amount_of(trace.values[i]);
        }
    }
    for (std::size_t i = 0; i < trace.points.size(); ++i) {
        if (units.of_point[i]) {
            TracePoint const& point = trace.points[i];
            Layer& layer = layers[*units.of_point[i]];
            (point.phase == Phase::forward ? layer.forward_ns : layer.backward_ns) +=
                point.duration_ns;
        }
    }
    if (layers.size() > kMostRows) {
        Layer rest{.name = fmt::format("{} others", layers.size() - kMostRows), .saved = {}};
        for (std::size_t i = kMostRows; i < layers.size(); ++i) {
            rest += layers[i];
        }
        layers.resize(kMostRows);
        layers.push_back(std::move(rest));
    }
    return layers;
}

std::string layers_of(Trace const& trace) {
    std::vector<Layer> const layers = layers_in(trace);
    if (layers.empty()) {
        return "";
    }
    std::string text = fmt::format(
        "\n{:<44}{:>8}{:>12}{:>12}{:>10}{:>10}\n",
        "layer",
        "tensors",
        "bytes",
        "again",
        "forward",
        "backward"
    );
    for (Layer const& layer : layers) {
        text += fmt::format(
            "{:<44}{:>8}{:>12}{:>12}{:>8.3f} s{:>8.3f} s\n",
            layer.name,
            layer.saved.values,
            format_size(layer.saved.bytes),
            share_of(layer.saved.again_bytes, layer.saved.bytes),
            static_cast<double>(layer.forward_ns) / 1e9,
            static_cast<double>(layer.backward_ns) / 1e9
        );
    }
    return text;
}

using Amounts = std::map<std::string, Amount, std::less<>>;

/// The largest first, and what is left of them as one.
std::vector<std::pair<std::string, Amount>> rows_of(Amounts const& amounts) {
    std::vector<std::pair<std::string, Amount>> rows(amounts.begin(), amounts.end());
    std::stable_sort(rows.begin(), rows.end(), [](auto const& one, auto const& other) {
        return one.second.bytes > other.second.bytes;
    });
    if (rows.size() > kMostRows) {
        Amount rest;
        for (std::size_t i = kMostRows; i < rows.size(); ++i) {
            rest += rows[i].second;
        }
        std::string const words = fmt::format("{} others", rows.size() - kMostRows);
        rows.resize(kMostRows);
        rows.emplace_back(words, rest);
    }
    return rows;
}

std::string operators_of(Trace const& trace) {
    Amounts amounts;
    for (TraceValue const& value : trace.values) {
        amounts[value.slot.producer] += amount_of(value);
    }
    std::string text =
        fmt::format("\n{:<44}{:>8}{:>12}{:>12}\n", "made by", "tensors", "bytes", "again");
    for (auto const& [producer, amount] : rows_of(amounts)) {
        text += fmt::format(
            "{:<44}{:>8}{:>12}{:>12}\n",
            producer,
            amount.values,
            format_size(amount.bytes),
            share_of(amount.again_bytes, amount.bytes)
        );
    }
    return text;
}

std::string reasons_of(Trace const& trace) {
    Amounts amounts;
    for (TraceValue const& value : trace.values) {
        if (!value.recipe && !value.why_no_recipe.empty()) {
            amounts[value.why_no_recipe] += amount_of(value);
        }
    }
    if (amounts.empty()) {
        bool const has_recipe =
            std::any_of(trace.values.begin(), trace.values.end(), [](TraceValue const& value) {
                return value.recipe.has_value();
            });
        return has_recipe || trace.values.empty() ? "" : fmt::format("\nnote: {}\n", kNoRecipes);
    }
    std::string text = fmt::format("\n{:>8}{:>12}  not made again, because\n", "tensors", "bytes");
    for (auto const& [why, amount] : rows_of(amounts)) {
        text += fmt::format("{:>8}{:>12}  {}\n", amount.values, format_size(amount.bytes), why);
    }
    return text;
}

}  // namespace

std::string to_table(Trace const& trace) {
    return head_of(trace) + phases_of(trace) + layers_of(trace) + operators_of(trace) +
           reasons_of(trace);
}

}  // namespace spillway
