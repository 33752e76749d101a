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

/// docs/formats/trace.md lists what changed with each version.
constexpr std::int64_t kTraceVersion = 6;

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

OrderedJson to_json(RecipeShape const& recipe) {
    OrderedJson json = OrderedJson::object();
    put_ids(json, "sources", recipe.sources);
    json["calls"] = recipe.calls;
    json["duration_ns"] = recipe.duration_ns;
    json["transient_bytes"] = recipe.transient_bytes;
    return json;
}

OrderedJson to_json(TraceValue const& value) {
    OrderedJson json{{"slot", to_json(value.slot)}, {"size_bytes", value.size_bytes}};
    if (!value.dtype.empty()) {
        json["dtype"] = value.dtype;
    }
    json["kind"] = name_of(value.kind);
    if (!value.module.empty()) {
        json["module"] = value.module;
    }
    if (value.tensor_class != TensorClass::other) {
        json["class"] = name_of(value.tensor_class);
    }
    for (TensorClass const each : value.classes) {
        json["classes"].push_back(name_of(each));
    }
    if (value.recipe) {
        json["recipe"] = to_json(*value.recipe);
    }
    if (!value.why_no_recipe.empty()) {
        json["why_no_recipe"] = value.why_no_recipe;
    }
    return json;
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

std::vector<ValueId> read_ids(JsonView const& view, char const* key) {
    std::vector<ValueId> ids;
    if (view.has(key)) {
        for (JsonView const& item : view.at(key).items()) {
            ids.push_back(ValueId{item.integer()});
        }
    }
    return ids;
}

RecipeShape read_recipe(JsonView const& view) {
    view.only({"sources", "calls", "duration_ns", "transient_bytes"});
    return {
        read_ids(view, "sources"),
        view.at("calls").integer(),
        view.at("duration_ns").integer(),
        view.at("transient_bytes").integer()};
}

TensorClass read_class(JsonView const& view) {
    Result<TensorClass> const found = parse_tensor_class(view.text());
    if (!found.ok()) {
        view.fail(found.error().what);
        return TensorClass::other;
    }
    return *found;
}

TraceValue read_value(JsonView const& view) {
    view.only(
        {"slot",
         "size_bytes",
         "dtype",
         "kind",
         "module",
         "class",
         "classes",
         "recipe",
         "why_no_recipe"}
    );
    TraceValue value;
    value.slot = read_slot(view.at("slot"));
    value.size_bytes = view.at("size_bytes").integer();
    value.dtype = view.has("dtype") ? view.at("dtype").text() : "";
    value.kind = static_cast<ValueKind>(
        view.at("kind").one_of({"activation", "parameter", "gradient", "optimizer", "kv"})
    );
    value.module = view.has("module") ? view.at("module").text() : "";
    if (view.has("class")) {
        value.tensor_class = read_class(view.at("class"));
    }
    if (view.has("classes")) {
        for (JsonView const& item : view.at("classes").items()) {
            value.classes.push_back(read_class(item));
        }
    }
    if (view.has("recipe")) {
        value.recipe = read_recipe(view.at("recipe"));
    }
    value.why_no_recipe = view.has("why_no_recipe") ? view.at("why_no_recipe").text() : "";
    return value;
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
    OrderedJson json{{"spillway_trace", kTraceVersion}, {"name", trace.name}};
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
    root.version("spillway_trace", kTraceVersion);
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
