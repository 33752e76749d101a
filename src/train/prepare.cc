// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/prepare.h"

#include "spillway/policy.h"
#include "spillway/units.h"
#include "train/bad_value.h"
#include "train/budget.h"
#include "train/checkpoint.h"
#include "train/checkpoint_folder.h"
#include "train/device.h"
#include "train/settings.h"

#include <nlohmann/json.hpp>

#include <string>

namespace spillway::train {

namespace {

/// What the program's parser does not see: which flags need or exclude others, it has checked.
void check_session(TrainOptions const& options) {
    if (auto const wrong = check_options(options.session)) {
        refuse(
            option_name(wrong->option, Face::program),
            typed_words(options, wrong->option),
            words_of(*wrong, Face::program)
        );
    }
    std::string const& policy = options.session.policy;
    if (options.session.device_budget_bytes == 0 && find_policy(policy)->is_lossy) {
        refuse("--policy", policy, "needs --device-budget");
    }
}

void check_nvme(SessionOptions const& session) {
    std::string const why = why_no_tier_in(session.nvme, session.nvme_allow_tmpfs);
    if (!why.empty()) {
        refuse("--nvme", session.nvme, with_option_names(why, Face::program));
    }
}

void check_paths(TrainOptions const& options) {
    SessionOptions const& session = options.session;
    if (!session.nvme.empty()) {
        check_nvme(session);
    }
    if (!options.json.empty()) {
        if (std::string const why = why_not_written(options.json); !why.empty()) {
            refuse("--json", options.json, why);
        }
    }
    if (!options.trace.empty()) {
        if (std::string const why = why_not_written(options.trace); !why.empty()) {
            refuse("--trace", options.trace, why);
        }
        if (options.steps < kTracedSteps) {
            refuse("--trace", options.trace, "it takes --steps 2 or more: one warms up");
        }
    }
    if (!options.checkpoint.empty()) {
        check_checkpoint_place(options.checkpoint);
    }
}

void check_same_model(TrainOptions const& options, ModelShape const& shape, SavedRun const& run) {
    auto const others =
        differences(run.settings().value("model", nlohmann::json{}), model_settings(shape));
    if (!others.empty()) {
        refuse("--resume", options.resume, "a checkpoint of another model: its " + others.front());
    }
}

/// What does not move is known before the first step: parameters, gradients, optimizer state.
void check_state_fits(TrainOptions const& options, ModelShape const& shape) {
    bool const moments_leave = options.session.states == "optimizer";
    // Itself, its gradient, AdamW's two moments.
    std::int64_t const state_bytes = parameter_count(shape) * (moments_leave ? 8 : 16);
    std::int64_t const budget_bytes = options.session.device_budget_bytes;
    if (budget_bytes == 0 || state_bytes <= budget_bytes) {
        return;
    }
    refuse(
        "--device-budget",
        typed_words(options, "device_budget_bytes"),
        std::string(
            moments_leave ? "step 1, update: parameters and gradients alone take "
                          : "step 1, update: parameters, gradients and optimizer state alone take "
        ) + format_size(state_bytes) +
            ", " + std::to_string(state_bytes) + " bytes, of " + std::to_string(budget_bytes) +
            " allowed; a larger --device-budget or a smaller model would make it fit"
    );
}

}  // namespace

Prepared::Prepared() = default;
Prepared::~Prepared() = default;
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;

Prepared prepare(TrainOptions const& options) {
    Prepared prepared;
    check_session(options);
    prepared.device = device_of(options.session.device);
    prepared.shape = shape_of(options);
    check_paths(options);
    if (!options.resume.empty()) {
        prepared.resumed = std::make_unique<SavedRun>(options.resume);
        check_same_model(options, prepared.shape, *prepared.resumed);
    }
    prepared.corpus = read_corpus(options.data, prepared.shape.sequence + 1);
    if (options.validate_every > 0) {
        hold_out_a_tenth(prepared.corpus, prepared.shape.sequence + 1);
    }
    check_state_fits(options, prepared.shape);
    check_device(options.session.device, prepared.device, &load_cuda);
    return prepared;
}

}  // namespace spillway::train
