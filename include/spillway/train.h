// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What `spillway train` is asked to do. The program fills this in from its flags and hands it to
// libspillway_train.so, which it loads at run time, so that the program itself never links torch.
#pragma once

#include "spillway/option.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace spillway {

/// One training run. Sizes are in bytes unless named otherwise; 0 or empty means "not asked for"
/// where the comment says so.
struct TrainOptions {
    // model
    std::string preset;  ///< as typed; empty: the demo's model
    std::string style;   ///< "gpt2" or "llama2"; empty: the preset's, else gpt2
    std::int64_t layers = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;  ///< llama: key and value heads
    std::int64_t width = 0;     ///< model dimension
    std::int64_t hidden = 0;    ///< feed-forward dimension
    std::int64_t vocab_size = 0;
    std::int64_t sequence = 0;  ///< tokens per sample
    std::int64_t batch = 0;     ///< samples per micro-batch
    double dropout = 0.0;

    // data
    std::string data;  ///< file or folder; empty: text already on the machine

    // optimizer
    double learning_rate = 3e-4;
    double weight_decay = 0.1;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double clip = 1.0;  ///< global norm; 0: none
    std::int64_t warmup_steps = 10;
    std::int64_t accumulate = 1;     ///< micro-batches a step
    std::string precision = "fp32";  ///< "fp32" or "bf16" (autocast)

    // run
    std::int64_t steps = 20;
    std::int64_t validate_every = 0;  ///< steps; 0: never
    std::int64_t seed = 0;
    std::int64_t threads = 0;           ///< intra-op threads; 0: torch's default
    std::string checkpoint;             ///< folder; empty: none
    std::int64_t checkpoint_every = 0;  ///< steps; 0: only at the end
    std::string resume;                 ///< folder of a checkpoint; empty: start afresh
    std::string json;                   ///< file for the results; empty: none
    std::string trace;                  ///< file for the last step's trace; empty: none
    bool count_allocations = false;     ///< plain run, allocator counted (measurements)

    // Options of the session; with `device_budget_bytes` = 0 there is no session.
    SessionOptions session;
    /// Sizes as typed, by their names in SessionOptions: messages repeat the user's own words.
    std::map<std::string, std::string, std::less<>> typed;
    bool measure_gradient_error = false;
};

/// Runs the training and returns the exit code: 0 done, 2 an invalid value (one to three
/// lines on stderr), 1 anything else that failed, 130 after Ctrl-C with the checkpoint written.
/// The name to look up in libspillway_train.so is "spillway_train".
using TrainFunction = int (*)(TrainOptions const*);

}  // namespace spillway

extern "C" int spillway_train(spillway::TrainOptions const* options);
