// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One line an event, one line a command: docs/formats/events.md.

#include "base/json_view.h"
#include "executor/event_log.h"
#include "plan/plan_text.h"
#include "trace/slot_text.h"

#include <nlohmann/json.hpp>

#include <array>
#include <set>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// docs/formats/events.md lists what changed with each version.
constexpr std::int64_t kEventsVersion = 6;

/// Sums over a whole log stay far from overflow.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;
constexpr std::int64_t kMostOperators = std::int64_t{1} << 32;

std::int64_t read_bytes(JsonView const& view) {
    return view.integer(0, kMostBytes);
}

// In the order of `Event`'s alternatives.
constexpr std::array<std::string_view, std::variant_size_v<Event>> kEvents{
    "begin",
    "end",
    "phase",
    "point",
    "saved",
    "made",
    "need",
    "about_to_write",
    "backward_order",
    "short",
    "plan",
    "finished",
    "failed",
    "dropped"};

OrderedJson to_json(std::vector<ValueId> const& values) {
    OrderedJson list = OrderedJson::array();
    for (ValueId const value : values) {
        list.push_back(value.number);
    }
    return list;
}

void put(OrderedJson& json, Usage const& usage) {
    json["used_bytes"] = usage.used_bytes;
    json["peak_bytes"] = usage.peak_bytes;
}
void put(OrderedJson& json, Begin const& event) {
    json["step"] = event.step;
}
void put(OrderedJson& json, End const& event) {
    json["step"] = event.step;
}
void put(OrderedJson& json, PhaseBegan const& event) {
    json["phase"] = name_of(event.phase);
    put(json, event.usage);
}
void put(OrderedJson& json, Point const& event) {
    json["unshared"] = to_json(event.unshared);
    put(json, event.usage);
}
void put(OrderedJson& json, Saved const& event) {
    json["value"] = event.value.number;
    json["size_bytes"] = event.size_bytes;
    json["slot"] = to_json(event.slot);
    put(json, event.usage);
    if (event.encoded_bytes != 0) {
        json["encoded_bytes"] = event.encoded_bytes;
    }
    if (event.advice != Advice::when_asked) {
        json["advice"] = name_of(event.advice);
    }
}
void put(OrderedJson& json, Made const& event) {
    json["value"] = event.value.number;
    json["sources"] = to_json(event.recipe.sources);
    json["calls"] = event.recipe.calls;
    json["duration_ns"] = event.recipe.duration_ns;
    json["transient_bytes"] = event.recipe.transient_bytes;
    if (!event.before_moves) {
        json["before_moves"] = false;
    }
}
void put(OrderedJson& json, Need const& event) {
    json["value"] = event.value.number;
    put(json, event.usage);
}
void put(OrderedJson& json, AboutToWrite const& event) {
    json["value"] = event.value.number;
}
void put(OrderedJson& json, BackwardOrder const& event) {
    json["values"] = to_json(event.values);
}
void put(OrderedJson& json, Short const& event) {
    json["size_bytes"] = event.size_bytes;
    put(json, event.usage);
}
void put(OrderedJson& json, PlanGiven const& event) {
    json["plan"] = to_json(event.plan);
}
void put(OrderedJson& json, Finished const& event) {
    json["command"] = event.command.number;
}
void put(OrderedJson& json, Failed const& event) {
    json["command"] = event.command.number;
    json["place_is_full"] = event.place_is_full;
    json["why"] = event.why;
}
void put(OrderedJson& json, Dropped const& event) {
    json["value"] = event.value.number;
}

std::vector<ValueId> read_values(JsonView const& view) {
    std::vector<ValueId> values;
    for (JsonView const& item : view.items()) {
        values.push_back(ValueId{item.integer()});
    }
    return values;
}

Usage read_usage(JsonView const& view) {
    return {read_bytes(view.at("used_bytes")), read_bytes(view.at("peak_bytes"))};
}

ValueId read_value(JsonView const& view) {
    return ValueId{view.at("value").integer()};
}

CommandId read_fence(JsonView const& view) {
    return CommandId{view.at("command").integer()};
}

PhaseBegan read_phase(JsonView const& view) {
    view.only({"e", "phase", "used_bytes", "peak_bytes"});
    std::size_t const phase = view.at("phase").one_of({"setup", "forward", "backward", "update"});
    return {static_cast<Phase>(phase), read_usage(view)};
}

Point read_point(JsonView const& view) {
    view.only({"e", "unshared", "used_bytes", "peak_bytes"});
    return {read_values(view.at("unshared")), read_usage(view)};
}

Saved read_saved(JsonView const& view) {
    view.only(
        {"e", "value", "size_bytes", "slot", "used_bytes", "peak_bytes", "encoded_bytes", "advice"}
    );
    Saved saved{
        read_value(view),
        read_bytes(view.at("size_bytes")),
        read_slot(view.at("slot")),
        read_usage(view)};
    if (view.has("encoded_bytes")) {
        saved.encoded_bytes = read_bytes(view.at("encoded_bytes"));
    }
    if (view.has("advice")) {
        saved.advice = static_cast<Advice>(
            view.at("advice").one_of({"never", "last_resort", "when_asked", "at_once"})
        );
    }
    return saved;
}

Made read_made(JsonView const& view) {
    view.only({"e", "value", "sources", "calls", "duration_ns", "transient_bytes", "before_moves"});
    RecipeShape recipe{
        read_values(view.at("sources")),
        view.at("calls").integer(1, kMostOperators),
        read_bytes(view.at("duration_ns")),
        read_bytes(view.at("transient_bytes"))};
    return {
        read_value(view),
        std::move(recipe),
        !view.has("before_moves") || view.at("before_moves").boolean()};
}

Need read_need(JsonView const& view) {
    view.only({"e", "value", "used_bytes", "peak_bytes"});
    return {read_value(view), read_usage(view)};
}

Short read_short(JsonView const& view) {
    view.only({"e", "size_bytes", "used_bytes", "peak_bytes"});
    return {read_bytes(view.at("size_bytes")), read_usage(view)};
}

Failed read_failed(JsonView const& view) {
    view.only({"e", "command", "place_is_full", "why"});
    return {read_fence(view), view.at("place_is_full").boolean(), view.at("why").text()};
}

std::int64_t read_step(JsonView const& view) {
    view.only({"e", "step"});
    return view.at("step").integer();
}

BackwardOrder read_order(JsonView const& view) {
    view.only({"e", "values"});
    return {read_values(view.at("values"))};
}

PlanGiven read_plan_given(JsonView const& view) {
    view.only({"e", "plan"});
    return {read_plan(view.at("plan"))};
}

Finished read_finished(JsonView const& view) {
    view.only({"e", "command"});
    return {read_fence(view)};
}

template <typename OfValue>
OfValue read_of_value(JsonView const& view) {
    view.only({"e", "value"});
    return {read_value(view)};
}

OrderedJson to_json(PoolRefusal const& refusal) {
    OrderedJson json{{"state", name_of(refusal.state)}};
    if (!refusal.error.empty()) {
        json["error"] = refusal.error;
    }
    return json;
}

OrderedJson to_json(Refusal const& refusal) {
    OrderedJson json{
        {"why", name_of(refusal.why)},
        {"asked_bytes", refusal.asked_bytes},
        {"used_bytes", refusal.used_bytes},
        {"limit_bytes", refusal.limit_bytes},
        {"freed_bytes", refusal.freed_bytes},
        {"needed_bytes", refusal.needed_bytes},
        {"held_bytes", refusal.held_bytes}};
    if (refusal.why == NoRoom::pools_full) {
        json["host"] = to_json(refusal.host);
        json["nvme"] = to_json(refusal.nvme);
    }
    return json;
}

OrderedJson to_json(Notice const& notice) {
    OrderedJson json{{"code", name_of(notice.code)}};
    if (notice.pool != Pool::device) {
        json["pool"] = name_of(notice.pool);
    }
    json["error"] = notice.error;
    return json;
}

Pool read_pool(JsonView const& view) {
    return static_cast<Pool>(view.one_of({"device", "host", "nvme"}));
}

PoolRefusal read_pool_refusal(JsonView const& view) {
    view.only({"state", "error"});
    return {
        static_cast<PoolState>(view.at("state").one_of({"absent", "full", "failed", "too_short"})),
        view.has("error") ? view.at("error").text() : ""};
}

Refusal read_refusal(JsonView const& view) {
    view.only(
        {"why",
         "asked_bytes",
         "used_bytes",
         "limit_bytes",
         "freed_bytes",
         "needed_bytes",
         "held_bytes",
         "host",
         "nvme"}
    );
    Refusal refusal;
    refusal.why = static_cast<NoRoom>(
        view.at("why").one_of({"moves_nothing", "no_pool", "pools_full", "nothing_to_move"})
    );
    refusal.asked_bytes = read_bytes(view.at("asked_bytes"));
    refusal.used_bytes = read_bytes(view.at("used_bytes"));
    refusal.limit_bytes = read_bytes(view.at("limit_bytes"));
    refusal.freed_bytes = read_bytes(view.at("freed_bytes"));
    refusal.needed_bytes = read_bytes(view.at("needed_bytes"));
    refusal.held_bytes = read_bytes(view.at("held_bytes"));
    if (refusal.why == NoRoom::pools_full) {
        refusal.host = read_pool_refusal(view.at("host"));
        refusal.nvme = read_pool_refusal(view.at("nvme"));
    }
    return refusal;
}

Notice read_notice(JsonView const& view) {
    view.only({"code", "pool", "error"});
    Notice notice;
    notice.code =
        static_cast<NoticeCode>(view.at("code").one_of({"pool_closed", "not_encoded", "not_loaded"})
        );
    notice.pool = view.has("pool") ? read_pool(view.at("pool")) : Pool::device;
    notice.error = view.at("error").text();
    return notice;
}

using EventReader = Event (*)(JsonView const&);

// In the order of `kEvents`.
constexpr std::array<EventReader, kEvents.size()> kReaders{
    [](JsonView const& view) -> Event { return Begin{read_step(view)}; },
    [](JsonView const& view) -> Event { return End{read_step(view)}; },
    [](JsonView const& view) -> Event { return read_phase(view); },
    [](JsonView const& view) -> Event { return read_point(view); },
    [](JsonView const& view) -> Event { return read_saved(view); },
    [](JsonView const& view) -> Event { return read_made(view); },
    [](JsonView const& view) -> Event { return read_need(view); },
    [](JsonView const& view) -> Event { return read_of_value<AboutToWrite>(view); },
    [](JsonView const& view) -> Event { return read_order(view); },
    [](JsonView const& view) -> Event { return read_short(view); },
    [](JsonView const& view) -> Event { return read_plan_given(view); },
    [](JsonView const& view) -> Event { return read_finished(view); },
    [](JsonView const& view) -> Event { return read_failed(view); },
    [](JsonView const& view) -> Event { return read_of_value<Dropped>(view); }};

Event read_event(JsonView const& view) {
    std::string const kind = view.at("e").text();
    for (std::size_t i = 0; i < kEvents.size(); ++i) {
        if (kind == kEvents[i]) {
            return kReaders[i](view);
        }
    }
    view.fail("has the unknown event '" + kind + "'");
    return Begin{};
}

Command read_command(JsonView const& view) {
    view.only(
        {"c",
         "id",
         "lane",
         "work",
         "value",
         "block",
         "pool",
         "size_bytes",
         "after",
         "optional",
         "refusal",
         "notice"}
    );
    Command command;
    command.kind = static_cast<CommandKind>(view.at("c").one_of(
        {"reserve", "release", "store", "load", "run", "bind", "drop", "wait", "raise", "note"}
    ));
    command.id = CommandId{view.at("id").integer()};
    command.lane = static_cast<Lane>(view.at("lane").one_of(
        {"compute", "side", "copy_out", "copy_in", "nvme_write", "nvme_read"}
    ));
    if (view.has("work")) {
        command.work =
            static_cast<SideWork>(view.at("work").one_of({"none", "encode", "decode", "recompute"})
            );
    }
    if (view.has("value")) {
        command.value = ValueId{view.at("value").integer()};
    }
    if (view.has("block")) {
        command.block = BlockId{view.at("block").integer()};
    }
    if (view.has("pool")) {
        command.pool = read_pool(view.at("pool"));
    }
    command.size_bytes = view.has("size_bytes") ? read_bytes(view.at("size_bytes")) : 0;
    if (view.has("after")) {
        for (JsonView const& item : view.at("after").items()) {
            command.after.push_back(CommandId{item.integer()});
        }
    }
    command.optional = view.has("optional") && view.at("optional").boolean();
    if (command.kind == CommandKind::raise) {
        command.message = read_refusal(view.at("refusal"));
    } else if (command.kind == CommandKind::note) {
        command.message = read_notice(view.at("notice"));
    }
    return command;
}

ExecutorState read_state(JsonView const& view) {
    view.only(
        {"next_command",
         "next_block",
         "floor_bytes",
         "floor_peak_bytes",
         "last_floor_peak_bytes",
         "in_backward",
         "left_bytes",
         "last_left_bytes",
         "reported_full",
         "plan"}
    );
    ExecutorState state;
    state.next_command = read_bytes(view.at("next_command"));
    state.next_block = read_bytes(view.at("next_block"));
    state.floor_bytes = read_bytes(view.at("floor_bytes"));
    state.floor_peak_bytes = read_bytes(view.at("floor_peak_bytes"));
    state.last_floor_peak_bytes = read_bytes(view.at("last_floor_peak_bytes"));
    state.in_backward = view.at("in_backward").boolean();
    if (view.has("left_bytes")) {
        state.left_bytes = read_bytes(view.at("left_bytes"));
    }
    if (view.has("last_left_bytes")) {
        state.last_left_bytes = read_bytes(view.at("last_left_bytes"));
    }
    std::set<Pool> pools;
    for (JsonView const& pool : view.at("reported_full").items()) {
        pools.insert(read_pool(pool));
    }
    state.reported_full.assign(pools.begin(), pools.end());
    if (view.has("plan")) {
        state.plan = read_plan(view.at("plan"));
    }
    return state;
}

}  // namespace

std::string log_header(ExecutorOptions const& options, ExecutorState const& state) {
    OrderedJson json{
        {"spillway_events", kEventsVersion},
        {"options",
         {{"chooser", name_of(options.chooser)},
          {"device_bytes", options.device_bytes},
          {"host_bytes", options.host_bytes},
          {"nvme_bytes", options.nvme_bytes}}}};
    if (options.nvme_value_bytes > 0) {
        json["options"]["nvme_value_bytes"] = options.nvme_value_bytes;
    }
    if (options.eviction != EvictionRule::next_use) {
        json["options"]["eviction"] = name_of(options.eviction);
    }
    if (state != ExecutorState{}) {
        json["state"] = {
            {"next_command", state.next_command},
            {"next_block", state.next_block},
            {"floor_bytes", state.floor_bytes},
            {"floor_peak_bytes", state.floor_peak_bytes},
            {"last_floor_peak_bytes", state.last_floor_peak_bytes},
            {"in_backward", state.in_backward},
            {"reported_full", OrderedJson::array()}};
        if (state.left_bytes) {
            json["state"]["left_bytes"] = *state.left_bytes;
        }
        if (state.last_left_bytes) {
            json["state"]["last_left_bytes"] = *state.last_left_bytes;
        }
        for (Pool const pool : state.reported_full) {
            json["state"]["reported_full"].push_back(name_of(pool));
        }
        if (state.plan) {
            json["state"]["plan"] = to_json(*state.plan);
        }
    }
    return json_line(json);
}

std::string to_text(Event const& event) {
    OrderedJson json{{"e", kEvents[event.index()]}};
    std::visit([&](auto const& e) { put(json, e); }, event);
    return json_line(json);
}

std::string to_text(Command const& command) {
    OrderedJson json{
        {"c", name_of(command.kind)}, {"id", command.id.number}, {"lane", name_of(command.lane)}};
    if (command.work != SideWork::none) {
        json["work"] = name_of(command.work);
    }
    if (command.value.valid()) {
        json["value"] = command.value.number;
    }
    if (command.block.valid()) {
        json["block"] = command.block.number;
    }
    if (command.pool != Pool::device) {
        json["pool"] = name_of(command.pool);
    }
    if (command.size_bytes != 0) {
        json["size_bytes"] = command.size_bytes;
    }
    for (CommandId const fence : command.after) {
        json["after"].push_back(fence.number);
    }
    if (command.optional) {
        json["optional"] = true;
    }
    if (auto const* const refusal = std::get_if<Refusal>(&command.message)) {
        json["refusal"] = to_json(*refusal);
    }
    if (auto const* const notice = std::get_if<Notice>(&command.message)) {
        json["notice"] = to_json(*notice);
    }
    return json_line(json);
}

Result<LogHeader> parse_log_header(std::string_view line) {
    JsonDocument document(line, "event log");
    JsonView const root = document.root();
    root.version("spillway_events", kEventsVersion);
    root.only({"spillway_events", "options", "state"});
    JsonView const view = root.at("options");
    view.only(
        {"chooser", "device_bytes", "host_bytes", "nvme_bytes", "nvme_value_bytes", "eviction"}
    );
    LogHeader header;
    ExecutorOptions& options = header.options;
    options.chooser = static_cast<ChooserKind>(view.at("chooser").one_of(kChooserNames));
    options.device_bytes = read_bytes(view.at("device_bytes"));
    options.host_bytes = read_bytes(view.at("host_bytes"));
    options.nvme_bytes = read_bytes(view.at("nvme_bytes"));
    if (view.has("nvme_value_bytes")) {
        options.nvme_value_bytes = read_bytes(view.at("nvme_value_bytes"));
    }
    if (view.has("eviction")) {
        options.eviction = static_cast<EvictionRule>(view.at("eviction").one_of(kEvictionNames));
    }
    if (root.has("state")) {
        header.state = read_state(root.at("state"));
    }
    return document.result(std::move(header));
}

Result<Event> parse_event(std::string_view line) {
    JsonDocument document(line, "event");
    Event event = read_event(document.root());
    return document.result(std::move(event));
}

Result<Command> parse_command(std::string_view line) {
    JsonDocument document(line, "command");
    Command command = read_command(document.root());
    return document.result(std::move(command));
}

}  // namespace spillway
