// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/settings.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <variant>

namespace spillway::train {

using Json = nlohmann::json;

namespace {

/// Options that have flags, by those: "nvme-allow-tmpfs"; numbers by their names with units:
/// "nvme-budget-bytes".
Json session_settings(SessionOptions const& session) {
    Json all;
    for (Option const& option : option_table()) {
        if (option.flag.empty()) {
            continue;
        }
        bool const is_number =
            std::holds_alternative<std::int64_t SessionOptions::*>(option.member);
        std::string name(is_number ? option.name : option.flag.substr(2));
        std::replace(name.begin(), name.end(), '_', '-');
        std::visit([&](auto member) { all[name] = session.*member; }, option.member);
    }
    return all;
}

}  // namespace

Json model_settings(ModelShape const& shape) {
    return {
        {"style", name_of(shape.style)},
        {"layers", shape.layers},
        {"heads", shape.heads},
        {"kv-heads", shape.kv_heads},
        {"width", shape.width},
        {"hidden", shape.hidden},
        {"vocab-size", shape.vocab_size},
        {"positions", shape.positions}};
}

Json run_settings(TrainOptions const& options, ModelShape const& shape, Corpus const& corpus) {
    SessionOptions const& session = options.session;
    Json run{
        {"sequence", shape.sequence},
        {"batch", shape.batch},
        {"dropout", shape.dropout},
        {"data", corpus.source},
        {"data-bytes", corpus.bytes.size()},
        {"data-fingerprint", corpus.fingerprint},
        {"lr", options.learning_rate},
        {"weight-decay", options.weight_decay},
        {"beta1", options.beta1},
        {"beta2", options.beta2},
        {"clip", options.clip},
        {"warmup", options.warmup_steps},
        {"accumulate", options.accumulate},
        {"precision", options.precision},
        {"device-type", session.device.substr(0, session.device.find(':'))},
        {"steps", options.steps},
        {"seed", options.seed}};
    if (corpus.held_out_bytes > 0) {
        run["held-out-bytes"] = corpus.held_out_bytes;
    }
    if (session.lossy) {
        run["lossy"] = session.policy + ' ' + session.codecs;
    }
    return run;
}

Json all_settings(TrainOptions const& options, ModelShape const& shape, Corpus const& corpus) {
    Json all = run_settings(options, shape, corpus);
    all.update(model_settings(shape));
    all.update(session_settings(options.session));
    all.update({
        {"preset", options.preset},
        {"validate-every", options.validate_every},
        {"parameters", parameter_count(shape)},
        {"data-files", corpus.files},
        {"threads", options.threads},
        {"device-budget", typed_words(options, "device_budget_bytes")},
        {"measure-gradient-error", options.measure_gradient_error},
        {"checkpoint", options.checkpoint},
        {"checkpoint-every", options.checkpoint_every},
        {"resume", options.resume},
        {"count-allocations", options.count_allocations},
    });
    return all;
}

std::string typed_words(TrainOptions const& options, std::string_view option) {
    if (auto const typed = options.typed.find(option); typed != options.typed.end()) {
        return typed->second;
    }
    Option const* const known = find_option(option);
    auto const* const text =
        known == nullptr ? nullptr : std::get_if<std::string SessionOptions::*>(&known->member);
    return text == nullptr ? "on" : options.session.*(*text);
}

std::vector<std::string> differences(Json const& saved, Json const& asked) {
    std::vector<std::string> lines;
    for (auto const& [name, value] : asked.items()) {
        Json const before = saved.is_object() && saved.contains(name) ? saved[name] : Json{};
        if (before != value) {
            lines.push_back(name + " " + before.dump() + ", asked for " + value.dump());
        }
    }
    return lines;
}

}  // namespace spillway::train
