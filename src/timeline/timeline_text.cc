// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The text forms of a timeline: docs/formats/timeline.md.

#include "base/json_view.h"
#include "timeline/timeline.h"

#include <nlohmann/json.hpp>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson to_json(Span const& span) {
    OrderedJson json{{"lane", name_of(span.lane)}, {"what", span.what}};
    if (span.value.valid()) {
        json["value"] = span.value.number;
    }
    if (span.size_bytes != 0) {
        json["size_bytes"] = span.size_bytes;
    }
    json["start_ns"] = span.start_ns;
    json["end_ns"] = span.end_ns;
    return json;
}

Span read_span(JsonView const& view) {
    view.only({"lane", "what", "value", "size_bytes", "start_ns", "end_ns"});
    Span span;
    span.lane = static_cast<Lane>(view.at("lane").one_of(
        {"compute", "side", "copy_out", "copy_in", "nvme_write", "nvme_read"}
    ));
    span.what = view.at("what").text();
    span.value = ValueId{view.has("value") ? view.at("value").integer() : -1};
    span.size_bytes = view.has("size_bytes") ? view.at("size_bytes").integer() : 0;
    span.start_ns = view.at("start_ns").integer();
    span.end_ns = view.at("end_ns").integer();
    return span;
}

MemoryStep read_step(JsonView const& view) {
    view.only({"pool", "at_ns", "used_bytes"});
    MemoryStep step;
    step.pool = static_cast<Pool>(view.at("pool").one_of({"device", "host", "nvme"}));
    step.at_ns = view.at("at_ns").integer();
    step.used_bytes = view.at("used_bytes").integer();
    return step;
}

double us(std::int64_t ns) {
    return static_cast<double>(ns) / 1000.0;
}

OrderedJson thread_name(std::size_t lane) {
    return {
        {"name", "thread_name"},
        {"ph", "M"},
        {"pid", 1},
        {"tid", lane},
        {"args", {{"name", name_of(static_cast<Lane>(lane))}}}};
}

OrderedJson chrome_span(Span const& span) {
    OrderedJson args = OrderedJson::object();
    std::string name = span.what;
    if (span.value.valid()) {
        name += " " + std::to_string(span.value.number);
        args["value"] = span.value.number;
    }
    if (span.size_bytes != 0) {
        args["size_bytes"] = span.size_bytes;
    }
    return {
        {"name", name},
        {"cat", span.what},
        {"ph", "X"},
        {"ts", us(span.start_ns)},
        {"dur", us(span.end_ns - span.start_ns)},
        {"pid", 1},
        {"tid", static_cast<int>(span.lane)},
        {"args", args}};
}

}  // namespace

std::string to_json_text(Timeline const& timeline) {
    OrderedJson json{{"spillway_timeline", 1}, {"name", timeline.name}};
    json["spans"] = OrderedJson::array();
    for (Span const& span : timeline.spans) {
        json["spans"].push_back(to_json(span));
    }
    json["memory"] = OrderedJson::array();
    for (MemoryStep const& step : timeline.memory) {
        json["memory"].push_back(
            {{"pool", name_of(step.pool)}, {"at_ns", step.at_ns}, {"used_bytes", step.used_bytes}}
        );
    }
    return json_lines(json, 2);
}

Result<Timeline> parse_timeline(std::string_view text) {
    JsonDocument document(text, "timeline");
    JsonView const root = document.root();
    root.only({"spillway_timeline", "name", "spans", "memory"});
    static_cast<void>(root.at("spillway_timeline").integer(1, 1));
    Timeline timeline;
    timeline.name = root.at("name").text();
    for (JsonView const& view : root.at("spans").items()) {
        timeline.spans.push_back(read_span(view));
    }
    for (JsonView const& view : root.at("memory").items()) {
        timeline.memory.push_back(read_step(view));
    }
    if (Result<void> const read = document.result(); !read) {
        return read.error();
    }
    if (Result<void> const valid = validate(timeline); !valid) {
        return Error{Errc::bad_format, valid.error().what, "timeline"};
    }
    return timeline;
}

std::string to_chrome_trace(Timeline const& timeline) {
    OrderedJson events = OrderedJson::array();
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        events.push_back(thread_name(lane));
    }
    for (Span const& span : timeline.spans) {
        events.push_back(chrome_span(span));
    }
    for (MemoryStep const& step : timeline.memory) {
        events.push_back(
            {{"name", std::string(name_of(step.pool)) + " bytes"},
             {"ph", "C"},
             {"ts", us(step.at_ns)},
             {"pid", 1},
             {"args", {{"used_bytes", step.used_bytes}}}}
        );
    }
    OrderedJson json{{"displayTimeUnit", "ms"}};
    json["traceEvents"] = std::move(events);
    return json_lines(json, 2);
}

}  // namespace spillway
