// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/python_options.h"

#include "base/json_view.h"
#include "memory/host_memory.h"
#include "spillway/limits.h"
#include "spillway/policy.h"

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// One line of JSON, of which Python makes an error of its own.
void throw_line(OrderedJson const& error) {
    TORCH_CHECK_VALUE(false, json_line(error));
}

}  // namespace

void refuse(OptionFault const& fault) {
    Option const* const option = find_option(fault.option);
    bool const is_budget = option != nullptr && option->share_of != ShareOf::nothing;
    throw_line(OrderedJson{
        {"code", name_of(fault.code)},
        {"option", option_name(fault.option, Face::python)},
        {"why", words_of(fault, Face::python)},
        {"number", fault.number},
        {"bound", fault.bound},
        {"is_budget", is_budget && !is_of_text(fault.code)}});
}

void check_state(bool holds, char const* otherwise) {
    if (!holds) {
        throw_line(OrderedJson{{"code", "state"}, {"why", otherwise}});
    }
}

namespace {

/// As a user would type it; of codecs by class, {"attention": "affine8"}, as one list.
std::string text_of(OrderedJson const& value) {
    if (!value.is_object()) {
        return value.is_string() ? value.get<std::string>() : value.dump();
    }
    std::vector<std::pair<std::string, std::string>> classes;
    for (auto const& [name, codec] : value.items()) {
        classes.emplace_back(name, codec.get<std::string>());
    }
    Result<std::string> const text = codecs_of_classes(classes);
    if (!text.ok()) {
        refuse(OptionFault{.option = "codecs", .detail = text.error().message()});
    }
    return *text;
}

bool has(OrderedJson const& given, std::string_view name) {
    auto const at = given.find(name);
    return at != given.end() && !at->is_null();
}

/// What Python means where no `host_budget` is given: half of what is free, for a GPU.
void choose_host_budget(OrderedJson const& given, SessionOptions& options) {
    if (options.device == "cpu") {
        return;
    }
    bool const moves = find_policy(options.policy)->moves;
    if (!has(given, "host_budget")) {
        options.host_budget_bytes = moves ? read_host_limits().left_bytes() / 2 : 0;
        return;
    }
    if (moves && options.host_budget_bytes == 0 && options.nvme.empty()) {
        refuse(OptionFault{
            .option = "host_budget_bytes",
            .detail = "'" + text_of(given["host_budget"]) + "', and no nvme: nothing could leave " +
                      options.device});
    }
}

}  // namespace

SessionOptions read_options(std::string const& text, std::int64_t device_bytes) {
    OrderedJson const given = OrderedJson::parse(text);
    SessionOptions options;
    options.device = given.at("device").get<std::string>();
    std::int64_t const whole_bytes = options.device == "cpu" ? memory_limit_bytes() : device_bytes;
    for (auto const& [name, value] : given.items()) {
        if (find_option(name, Face::python) == nullptr) {
            refuse(OptionFault{.option = name, .detail = "there is no such option"});
        }
    }
    for (Option const& option : option_table()) {
        std::string_view const name = option_name(option.name, Face::python);
        if (!has(given, name)) {
            continue;
        }
        if (auto const wrong = read_option(option, text_of(given[name]), whole_bytes, options)) {
            refuse(*wrong);
        }
    }
    if (auto const wrong = check_options(options)) {
        refuse(*wrong);
    }
    choose_host_budget(given, options);
    options.face = Face::python;
    options.keep_timeline = true;
    options.cap_from_open = false;
    return options;
}

}  // namespace spillway
