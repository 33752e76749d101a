// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What one configuration of the GPU benchmark is, and the flags that say so.
#pragma once

#include "gpu/measured.h"
#include "spillway/train.h"
#include "train/bad_value.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

namespace spillway::bench {

struct Settings {
    std::string mode = "plain";
    std::string model = "tiny";
    std::string device = "cuda:0";
    std::string precision = "bf16";
    std::string nvme;
    std::int64_t batch = 0;
    std::int64_t sequence = 0;
    std::int64_t steps = 5;
    std::int64_t warmup = 2;
    std::int64_t budget_bytes = 0;
    std::int64_t host_budget_bytes = 0;
    std::int64_t nvme_budget_bytes = 0;
    std::int64_t cap_bytes = 0;
    std::int64_t ceiling_bytes = 0;
    bool deterministic = false;
    bool dry_run = false;
};

inline Mode mode_of(std::string const& name) {
    constexpr std::array<char const*, 5> kNames{
        "plain", "checkpoint", "save_on_cpu", "spillway", "qpo"};
    auto const at = std::find(kNames.begin(), kNames.end(), name);
    if (at == kNames.end()) {
        throw train::BadValue("--mode " + name + ": not one of the five");
    }
    return static_cast<Mode>(at - kNames.begin());
}

inline std::int64_t blocks_of(std::string const& text) {
    std::int64_t blocks = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), blocks);
    if (error != std::errc() || end != text.data() + text.size() || blocks < 1) {
        throw train::BadValue("--model llama2-7b-blocks:" + text + ": not a number of blocks");
    }
    return blocks;
}

/// "gpt2-345m", "llama2-7b-blocks:4" (so many blocks of it), "tiny", "tiny-llama".
inline TrainOptions model_of(Settings const& settings) {
    constexpr std::string_view kBlocks = "llama2-7b-blocks:";
    TrainOptions options;
    options.preset = settings.model;
    if (settings.model.starts_with(kBlocks)) {
        options.preset = "llama2-7b";
        options.layers = blocks_of(settings.model.substr(kBlocks.size()));
    } else if (settings.model.starts_with("tiny")) {
        options.preset = "";
        options.style = settings.model == "tiny" ? "gpt2" : "llama2";
        options.layers = 3;
        options.heads = 2;
        options.width = 64;
        options.sequence = 128;
        options.batch = 4;
    }
    options.batch = settings.batch > 0 ? settings.batch : options.batch;
    options.sequence = settings.sequence > 0 ? settings.sequence : options.sequence;
    options.precision = settings.precision;
    options.session.device = settings.device;
    options.steps = settings.warmup + settings.steps + 1;
    return options;
}

/// `settings` must outlive the parsing.
inline void add_flags(CLI::App& app, Settings& settings) {
    app.add_option(
        "--mode", settings.mode, "plain, checkpoint, save_on_cpu, spillway or qpo (lossy)"
    );
    app.add_option(
        "--model", settings.model, "gpt2-345m, llama2-7b-blocks:N, tiny, tiny-llama ..."
    );
    app.add_option("--device", settings.device, "cuda:0, or cpu");
    app.add_option("--precision", settings.precision, "bf16 or fp32");
    app.add_option("--batch", settings.batch, "samples a step");
    app.add_option("--sequence", settings.sequence, "tokens per sample");
    app.add_option("--steps", settings.steps, "measured ones")->check(CLI::PositiveNumber);
    app.add_option("--warmup", settings.warmup, "steps before them")->check(CLI::NonNegativeNumber);
    app.add_option("--budget", settings.budget_bytes, "Spillway's device bytes; 0: no cap");
    app.add_option("--host-budget", settings.host_budget_bytes, "Spillway's host bytes");
    app.add_option("--nvme", settings.nvme, "Spillway's folder");
    app.add_option("--nvme-budget", settings.nvme_budget_bytes, "bytes there");
    app.add_option("--cap", settings.cap_bytes, "device bytes that the other modes see; 0: all");
    app.add_option("--ceilings", settings.ceiling_bytes, "no training: copies of so many bytes");
    app.add_flag("--deterministic", settings.deterministic, "kernels that add in one order only");
    app.add_flag("--dry-run", settings.dry_run, "check what was asked for and run nothing");
}

/// Of torch's CUDA allocator.
inline std::string allocator_settings() {
    char const* const known = std::getenv("PYTORCH_CUDA_ALLOC_CONF");
    return known == nullptr ? "" : known;
}

/// The head of the JSON line.
[[nodiscard]] inline nlohmann::ordered_json as_asked(Settings const& settings) {
    if (settings.ceiling_bytes > 0) {
        return {{"kind", "ceilings"}, {"device", settings.device}};
    }
    return {
        {"kind", "training"},
        {"mode", settings.mode},
        {"model", settings.model},
        {"device", settings.device},
        {"precision", settings.precision},
        {"steps", settings.steps},
        {"cap_bytes", settings.cap_bytes},
        {"budget_bytes", settings.budget_bytes},
        {"host_budget_bytes", settings.host_budget_bytes},
        {"nvme_budget_bytes", settings.nvme_budget_bytes},
        {"allocator_settings", allocator_settings()},
        {"deterministic", settings.deterministic}};
}

}  // namespace spillway::bench
