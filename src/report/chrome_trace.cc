// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/chrome_trace.h"

#include "base/json_view.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMarksRow = kLanes;  ///< below the lanes
constexpr std::size_t kRecomputeRow = kLanes + 1;

double us(std::int64_t ns) {
    return static_cast<double>(ns) / 1000.0;
}

OrderedJson row_name(std::size_t row, std::string_view name) {
    return {
        {"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", row}, {"args", {{"name", name}}}};
}

/// A byte a nanosecond is a GB a second. To three digits: nobody measures more.
double gb_per_s(Span const& span) {
    std::int64_t const took_ns = span.took_ns != 0 ? span.took_ns : span.end_ns - span.start_ns;
    auto const at_least_ns = static_cast<double>(std::max<std::int64_t>(took_ns, 1));
    return std::round(1000 * static_cast<double>(span.size_bytes) / at_least_ns) / 1000;
}

OrderedJson args_of(Span const& span) {
    OrderedJson args = OrderedJson::object();
    if (span.value.valid()) {
        args["value"] = span.value.number;
    }
    if (!span.text.empty()) {
        args["text"] = span.text;
    }
    if (span.size_bytes != 0) {
        args["size_bytes"] = span.size_bytes;
        args["gb_per_s"] = gb_per_s(span);
    }
    if (span.took_ns != 0) {
        args["took_us"] = us(span.took_ns);
    }
    return args;
}

/// "store 7", "stall nvme".
std::string name_of(Span const& span) {
    if (span.value.valid()) {
        return span.what + " " + std::to_string(span.value.number);
    }
    return span.text.empty() ? span.what : span.what + " " + span.text;
}

OrderedJson complete(
    std::string_view name,
    std::string_view category,
    std::int64_t start_ns,
    std::int64_t end_ns,
    std::size_t row
) {
    return {
        {"name", name},
        {"cat", category},
        {"ph", "X"},
        {"ts", us(start_ns)},
        {"dur", us(end_ns - start_ns)},
        {"pid", 1},
        {"tid", row}};
}

/// Runs on the compute lane, beside its stalls: a row of its own shows both.
bool is_recompute(Span const& span) {
    return span.what == "recompute";
}

void add_spans(OrderedJson& events, Timeline const& timeline) {
    if (std::any_of(timeline.spans.begin(), timeline.spans.end(), is_recompute)) {
        events.push_back(row_name(kRecomputeRow, "recompute"));
    }
    for (Span const& span : timeline.spans) {
        std::size_t const row =
            is_recompute(span) ? kRecomputeRow : static_cast<std::size_t>(span.lane);
        events.push_back(complete(name_of(span), span.what, span.start_ns, span.end_ns, row));
        events.back()["args"] = args_of(span);
    }
}

void add_memory(OrderedJson& events, Timeline const& timeline) {
    for (MemoryStep const& step : timeline.memory) {
        events.push_back(
            {{"name", std::string(name_of(step.pool)) + " bytes"},
             {"ph", "C"},
             {"ts", us(step.at_ns)},
             {"pid", 1},
             {"args", {{"used_bytes", step.used_bytes}}}}
        );
    }
}

/// The last time in the timeline.
std::int64_t end_of(Timeline const& timeline) {
    std::int64_t end_ns = timeline.marks.back().at_ns;
    for (Span const& span : timeline.spans) {
        end_ns = std::max(end_ns, span.end_ns);
    }
    for (MemoryStep const& step : timeline.memory) {
        end_ns = std::max(end_ns, step.at_ns);
    }
    return end_ns;
}

void add_marks(OrderedJson& events, Timeline const& timeline) {
    if (timeline.marks.empty()) {
        return;
    }
    events.push_back(row_name(kMarksRow, "steps"));
    std::int64_t const end_ns = end_of(timeline);
    for (std::size_t i = 0; i < timeline.marks.size(); ++i) {
        Mark const& mark = timeline.marks[i];
        bool const is_last = i + 1 == timeline.marks.size();
        std::int64_t const next_ns = is_last ? end_ns : timeline.marks[i + 1].at_ns;
        events.push_back(complete(mark.what, "phase", mark.at_ns, next_ns, kMarksRow));
    }
}

}  // namespace

std::string to_chrome_trace(Timeline const& timeline) {
    OrderedJson events = OrderedJson::array();
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        events.push_back(row_name(lane, name_of(static_cast<Lane>(lane))));
    }
    add_spans(events, timeline);
    add_memory(events, timeline);
    add_marks(events, timeline);
    OrderedJson json{{"displayTimeUnit", "ms"}};
    json["traceEvents"] = std::move(events);
    return json_lines(json, 2);
}

}  // namespace spillway
