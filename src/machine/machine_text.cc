// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The text form of a machine: docs/formats/machine.md.

#include "base/json_view.h"
#include "machine/machine.h"

#include <nlohmann/json.hpp>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;
constexpr double kMostRate = 1e18;
constexpr std::int64_t kVersion = 2;

OrderedJson to_json(MachineLink const& link) {
    OrderedJson json{
        {"from", name_of(link.from)},
        {"to", name_of(link.to)},
        {"rate_bytes_per_s", link.rate_bytes_per_s},
        {"both_ways_rate_bytes_per_s", link.both_ways_rate_bytes_per_s},
        {"latency_ns", link.latency_ns}};
    if (!link.group.empty()) {
        json["group"] = link.group;
    }
    return json;
}

Pool read_pool(JsonView const& view) {
    return static_cast<Pool>(view.one_of({"device", "host", "nvme"}));
}

MachineTier read_tier(JsonView const& view) {
    view.only({"name", "pool", "capacity_bytes"});
    MachineTier tier;
    tier.name = view.at("name").text();
    tier.pool = read_pool(view.at("pool"));
    tier.capacity_bytes = view.at("capacity_bytes").integer();
    return tier;
}

MachineLink read_link(JsonView const& view) {
    view.only(
        {"from", "to", "rate_bytes_per_s", "both_ways_rate_bytes_per_s", "latency_ns", "group"}
    );
    MachineLink link;
    link.from = read_pool(view.at("from"));
    link.to = read_pool(view.at("to"));
    link.rate_bytes_per_s = view.at("rate_bytes_per_s").number(1, kMostRate);
    link.both_ways_rate_bytes_per_s = view.at("both_ways_rate_bytes_per_s").number(1, kMostRate);
    link.latency_ns = view.at("latency_ns").integer();
    link.group = view.has("group") ? view.at("group").text() : "";
    return link;
}

OrderedJson to_json(DeviceSpeed const& device) {
    OrderedJson json{
        {"flop_per_s", {{"float32", device.float32_flop_per_s}, {"half", device.half_flop_per_s}}},
        {"memory_bytes_per_s", device.memory_bytes_per_s},
        {"interference", device.interference}};
    if (device.encode_bytes_per_s > 0 || device.decode_bytes_per_s > 0) {
        json["codec_bytes_per_s"] = {
            {"encode", device.encode_bytes_per_s}, {"decode", device.decode_bytes_per_s}};
    }
    return json;
}

DeviceSpeed read_device(JsonView const& view) {
    view.only({"flop_per_s", "memory_bytes_per_s", "interference", "codec_bytes_per_s"});
    JsonView const flop = view.at("flop_per_s");
    flop.only({"float32", "half"});
    DeviceSpeed device;
    device.float32_flop_per_s = flop.at("float32").number(0, kMostRate);
    device.half_flop_per_s = flop.at("half").number(0, kMostRate);
    device.memory_bytes_per_s = view.at("memory_bytes_per_s").number(0, kMostRate);
    device.interference = view.has("interference") ? view.at("interference").number(0, 1) : 0;
    if (view.has("codec_bytes_per_s")) {
        JsonView const codec = view.at("codec_bytes_per_s");
        codec.only({"encode", "decode"});
        device.encode_bytes_per_s = codec.at("encode").number(0, kMostRate);
        device.decode_bytes_per_s = codec.at("decode").number(0, kMostRate);
    }
    return device;
}

ShareGroup read_group(JsonView const& view) {
    view.only({"name", "rate_bytes_per_s"});
    return {view.at("name").text(), view.at("rate_bytes_per_s").number(1, kMostRate)};
}

}  // namespace

std::string to_json_text(Machine const& machine) {
    OrderedJson json{{"spillway_machine", kVersion}, {"name", machine.name}};
    json["tiers"] = OrderedJson::array();
    for (MachineTier const& tier : machine.tiers) {
        json["tiers"].push_back(
            {{"name", tier.name},
             {"pool", name_of(tier.pool)},
             {"capacity_bytes", tier.capacity_bytes}}
        );
    }
    json["links"] = OrderedJson::array();
    for (MachineLink const& link : machine.links) {
        json["links"].push_back(to_json(link));
    }
    json["groups"] = OrderedJson::array();
    for (ShareGroup const& group : machine.groups) {
        json["groups"].push_back(
            {{"name", group.name}, {"rate_bytes_per_s", group.rate_bytes_per_s}}
        );
    }
    if (machine.device != DeviceSpeed{}) {
        json["device"] = to_json(machine.device);
    }
    if (!machine.sources.empty()) {
        json["sources"] = machine.sources;
    }
    return json_lines(json, 2);
}

Result<Machine> parse_machine(std::string_view text) {
    JsonDocument document(text, "machine");
    JsonView const root = document.root();
    root.version("spillway_machine", kVersion);
    root.only({"spillway_machine", "name", "tiers", "links", "groups", "device", "sources"});
    Machine machine;
    machine.name = root.at("name").text();
    for (JsonView const& view : root.at("tiers").items()) {
        machine.tiers.push_back(read_tier(view));
    }
    for (JsonView const& view : root.at("links").items()) {
        machine.links.push_back(read_link(view));
    }
    for (JsonView const& view : root.at("groups").items()) {
        machine.groups.push_back(read_group(view));
    }
    if (root.has("device")) {
        machine.device = read_device(root.at("device"));
    }
    if (root.has("sources")) {
        for (JsonView const& view : root.at("sources").items()) {
            machine.sources.push_back(view.text());
        }
    }
    if (Result<void> const read = document.result(); !read) {
        return read.error();
    }
    if (Result<void> const valid = validate(machine); !valid) {
        return Error{Errc::bad_format, valid.error().what, "machine"};
    }
    return machine;
}

}  // namespace spillway
