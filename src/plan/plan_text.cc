// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The text form of a plan: docs/formats/plan.md.

#include "plan/plan_text.h"

#include "trace/slot_text.h"

#include <nlohmann/json.hpp>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

Fate read_fate(JsonView const& view) {
    view.only({"slot", "fate", "pool", "codec", "leaves", "returns"});
    Fate fate;
    fate.kind = static_cast<FateKind>(view.at("fate").one_of({"keep", "move", "recompute"}));
    if (fate.kind == FateKind::keep) {
        for (char const* const key : {"pool", "codec", "leaves", "returns"}) {
            if (view.has(key)) {
                view.fail("is kept, but has the field " + std::string(key));
            }
        }
        return fate;
    }
    if (fate.kind == FateKind::move) {
        fate.pool = view.at("pool").one_of({"host", "nvme"}) == 0 ? Pool::host : Pool::nvme;
        fate.codec = view.has("codec") ? view.at("codec").text() : "";
    } else if (view.has("pool") || view.has("codec") || view.has("returns")) {
        view.fail("is made again, but has a pool, a codec or a time to return");
    }
    if (view.has("leaves")) {
        fate.leaves = read_slot(view.at("leaves"));
    }
    if (view.has("returns")) {
        fate.returns = read_slot(view.at("returns"));
    }
    return fate;
}

}  // namespace

OrderedJson to_json(Plan const& plan) {
    OrderedJson json{
        {"spillway_plan", plan.version},
        {"policy", plan.policy},
        {"device_bytes", plan.device_bytes},
        {"predicted_step_ns", plan.predicted_step_ns},
        {"predicted_peak_bytes", plan.predicted_peak_bytes},
        {"bound_step_ns", plan.bound_step_ns}};
    json["fates"] = OrderedJson::array();
    for (auto const& [slot, fate] : plan.fates) {
        OrderedJson item{{"slot", to_json(slot)}};
        item["fate"] = name_of(fate.kind);
        if (fate.kind == FateKind::move) {
            item["pool"] = name_of(fate.pool);
        }
        if (!fate.codec.empty()) {
            item["codec"] = fate.codec;
        }
        if (fate.leaves) {
            item["leaves"] = to_json(*fate.leaves);
        }
        if (fate.returns) {
            item["returns"] = to_json(*fate.returns);
        }
        json["fates"].push_back(std::move(item));
    }
    return json;
}

Plan read_plan(JsonView const& view) {
    view.version("spillway_plan", Plan().version);
    view.only(
        {"spillway_plan",
         "policy",
         "device_bytes",
         "predicted_step_ns",
         "predicted_peak_bytes",
         "bound_step_ns",
         "fates"}
    );
    Plan plan;
    plan.policy = view.at("policy").text();
    plan.device_bytes = view.at("device_bytes").integer();
    plan.predicted_step_ns = view.at("predicted_step_ns").integer();
    plan.predicted_peak_bytes = view.at("predicted_peak_bytes").integer();
    plan.bound_step_ns = view.at("bound_step_ns").integer();
    for (JsonView const& item : view.at("fates").items()) {
        if (!plan.fates.emplace(read_slot(item.at("slot")), read_fate(item)).second) {
            item.fail("has the slot of another fate");
        }
    }
    return plan;
}

std::string to_json_text(Plan const& plan) {
    return json_lines(to_json(plan), 2);
}

Result<Plan> parse_plan(std::string_view text) {
    JsonDocument document(text, "plan");
    Plan plan = read_plan(document.root());
    return document.result(std::move(plan));
}

}  // namespace spillway
