// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/settings.h"

#include <nlohmann/json.hpp>

namespace spillway::train {

using Json = nlohmann::json;

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
        {"device-type", options.device.substr(0, options.device.find(':'))},
        {"steps", options.steps},
        {"seed", options.seed}};
    if (corpus.held_out_bytes > 0) {
        run["held-out-bytes"] = corpus.held_out_bytes;
    }
    if (options.lossy) {
        run["lossy"] = options.policy + ' ' + options.codec;
    }
    return run;
}

Json all_settings(TrainOptions const& options, ModelShape const& shape, Corpus const& corpus) {
    Json all = run_settings(options, shape, corpus);
    all.update(model_settings(shape));
    all.update({
        {"preset", options.preset},
        {"validate-every", options.validate_every},
        {"parameters", parameter_count(shape)},
        {"data-files", corpus.files},
        {"device", options.device},
        {"threads", options.threads},
        {"device-budget", options.device_budget_typed},
        {"device-budget-bytes", options.device_budget_bytes},
        {"host-budget-bytes", options.host_budget_bytes},
        {"nvme", options.nvme},
        {"nvme-budget-bytes", options.nvme_budget_bytes},
        {"nvme-allow-tmpfs", options.nvme_allow_tmpfs},
        {"nvme-rate-bytes-per-s", options.nvme_rate_bytes_per_s},
        {"policy", options.policy},
        {"lossy", options.lossy},
        {"codec", options.codec},
        {"nonfinite", options.nonfinite},
        {"measure-gradient-error", options.measure_gradient_error},
        {"checkpoint", options.checkpoint},
        {"checkpoint-every", options.checkpoint_every},
        {"resume", options.resume},
        {"count-allocations", options.count_allocations},
        {"record-events", options.record_events},
        {"timeline", options.timeline_file},
    });
    return all;
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
