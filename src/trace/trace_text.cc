// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The text form of a trace: docs/formats/trace.md.

#include "base/json_view.h"
#include "trace/slot_text.h"
#include "trace/trace.h"

#include <nlohmann/json.hpp>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson to_json(TraceValue const& value) {
    OrderedJson json{{"slot", to_json(value.slot)}, {"size_bytes", value.size_bytes}};
    if (!value.dtype.empty()) {
        json["dtype"] = value.dtype;
    }
    json["kind"] = name_of(value.kind);
    if (value.remake_ns != 0) {
        json["remake_ns"] = value.remake_ns;
    }
    return json;
}

void put_ids(OrderedJson& json, char const* key, std::vector<ValueId> const& ids) {
    if (ids.empty()) {
        return;
    }
    OrderedJson list = OrderedJson::array();
    for (ValueId const id : ids) {
        list.push_back(id.number);
    }
    json[key] = std::move(list);
}

OrderedJson to_json(TracePoint const& point) {
    OrderedJson json{
        {"phase", name_of(point.phase)},
        {"duration_ns", point.duration_ns},
        {"floor_bytes", point.floor_bytes}};
    put_ids(json, "needed", point.needed);
    put_ids(json, "saved", point.saved);
    put_ids(json, "unshared", point.unshared);
    put_ids(json, "dropped", point.dropped);
    return json;
}

TraceValue read_value(JsonView const& view) {
    view.only({"slot", "size_bytes", "dtype", "kind", "remake_ns"});
    TraceValue value;
    value.slot = read_slot(view.at("slot"));
    value.size_bytes = view.at("size_bytes").integer();
    value.dtype = view.has("dtype") ? view.at("dtype").text() : "";
    value.kind = static_cast<ValueKind>(
        view.at("kind").one_of({"activation", "parameter", "gradient", "optimizer", "kv"})
    );
    value.remake_ns = view.has("remake_ns") ? view.at("remake_ns").integer() : 0;
    return value;
}

std::vector<ValueId> read_ids(JsonView const& view, char const* key) {
    std::vector<ValueId> ids;
    if (view.has(key)) {
        for (JsonView const& item : view.at(key).items()) {
            ids.push_back(ValueId{item.integer()});
        }
    }
    return ids;
}

TracePoint read_point(JsonView const& view) {
    view.only({"phase", "duration_ns", "floor_bytes", "needed", "saved", "unshared", "dropped"});
    TracePoint point;
    point.phase =
        static_cast<Phase>(view.at("phase").one_of({"setup", "forward", "backward", "update"}));
    point.duration_ns = view.at("duration_ns").integer();
    point.floor_bytes = view.at("floor_bytes").integer();
    point.needed = read_ids(view, "needed");
    point.saved = read_ids(view, "saved");
    point.unshared = read_ids(view, "unshared");
    point.dropped = read_ids(view, "dropped");
    return point;
}

}  // namespace

std::string to_json_text(Trace const& trace) {
    OrderedJson json{{"spillway_trace", 2}, {"name", trace.name}};
    json["values"] = OrderedJson::array();
    for (TraceValue const& value : trace.values) {
        json["values"].push_back(to_json(value));
    }
    json["points"] = OrderedJson::array();
    for (TracePoint const& point : trace.points) {
        json["points"].push_back(to_json(point));
    }
    return json_lines(json, 2);
}

Result<Trace> parse_trace(std::string_view text) {
    JsonDocument document(text, "trace");
    JsonView const root = document.root();
    root.version("spillway_trace", 2);
    root.only({"spillway_trace", "name", "values", "points"});
    Trace trace;
    trace.name = root.at("name").text();
    for (JsonView const& view : root.at("values").items()) {
        trace.values.push_back(read_value(view));
    }
    for (JsonView const& view : root.at("points").items()) {
        trace.points.push_back(read_point(view));
    }
    if (Result<void> const read = document.result(); !read) {
        return read.error();
    }
    if (Result<void> const valid = validate(trace); !valid) {
        return Error{Errc::bad_format, valid.error().what, "trace"};
    }
    return trace;
}

}  // namespace spillway
