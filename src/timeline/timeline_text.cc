// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The text form of a timeline: docs/formats/timeline.md.

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
    if (span.took_ns != 0) {
        json["took_ns"] = span.took_ns;
    }
    if (!span.text.empty()) {
        json["text"] = span.text;
    }
    return json;
}

Span read_span(JsonView const& view) {
    view.only({"lane", "what", "value", "size_bytes", "start_ns", "end_ns", "took_ns", "text"});
    Span span;
    span.lane = static_cast<Lane>(view.at("lane").one_of(
        {"compute", "side", "copy_out", "copy_in", "nvme_write", "nvme_read"}
    ));
    span.what = view.at("what").text();
    span.value = ValueId{view.has("value") ? view.at("value").integer() : -1};
    span.size_bytes = view.has("size_bytes") ? view.at("size_bytes").integer() : 0;
    span.start_ns = view.at("start_ns").integer();
    span.end_ns = view.at("end_ns").integer();
    span.took_ns = view.has("took_ns") ? view.at("took_ns").integer() : 0;
    span.text = view.has("text") ? view.at("text").text() : "";
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
    for (Mark const& mark : timeline.marks) {
        json["marks"].push_back({{"at_ns", mark.at_ns}, {"what", mark.what}});
    }
    return json_lines(json, 2);
}

Result<Timeline> parse_timeline(std::string_view text) {
    JsonDocument document(text, "timeline");
    JsonView const root = document.root();
    root.version("spillway_timeline", 1);
    root.only({"spillway_timeline", "name", "spans", "memory", "marks"});
    Timeline timeline;
    timeline.name = root.at("name").text();
    for (JsonView const& view : root.at("spans").items()) {
        timeline.spans.push_back(read_span(view));
    }
    for (JsonView const& view : root.at("memory").items()) {
        timeline.memory.push_back(read_step(view));
    }
    if (root.has("marks")) {
        for (JsonView const& view : root.at("marks").items()) {
            view.only({"at_ns", "what"});
            timeline.marks.push_back({view.at("at_ns").integer(), view.at("what").text()});
        }
    }
    if (Result<void> const read = document.result(); !read) {
        return read.error();
    }
    if (Result<void> const valid = validate(timeline); !valid) {
        return Error{Errc::bad_format, valid.error().what, "timeline"};
    }
    return timeline;
}

}  // namespace spillway
