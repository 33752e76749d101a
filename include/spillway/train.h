// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What `spillway train` is asked to do. The program fills this in from its flags and hands it to
// libspillway_train.so, which it loads at run time, so that the program itself never links torch.
#pragma once

#include <cstdint>
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
    std::int64_t sequence = 0;  ///< tokens a sample
    std::int64_t batch = 0;     ///< samples a micro-batch
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
    std::string device = "cpu";
    std::int64_t threads = 0;           ///< intra-op threads; 0: torch's default
    std::string checkpoint;             ///< folder; empty: none
    std::int64_t checkpoint_every = 0;  ///< steps; 0: only at the end
    std::string resume;                 ///< folder of a checkpoint; empty: start afresh
    std::string json;                   ///< file for the results; empty: none
    bool count_allocations = false;     ///< plain run, allocator counted (measurements)

    // budget, as bytes and as typed (messages repeat the user's own words)
    std::int64_t device_budget_bytes = 0;  ///< 0: no cap, Spillway not in play
    std::string device_budget_typed;
    std::int64_t host_budget_bytes = 0;
    std::string host_budget_typed;
    std::string nvme;
    std::int64_t nvme_budget_bytes = 0;
    std::string nvme_budget_typed;
    bool nvme_allow_tmpfs = false;
    std::int64_t nvme_rate_bytes_per_s = 0;  ///< 0: as fast as it is
    std::string nvme_rate_typed;
    std::string policy = "online";
    bool lossy = false;
    std::string codec;  ///< empty: the policy's own
    std::string nonfinite = "keep";
    bool measure_gradient_error = false;
    std::string record_events;
    std::string flight_record;
    std::string timeline_file;
};

/// Runs the training and returns the exit code: 0 done, 2 a value that cannot be used (one to three
/// lines on stderr), 1 anything else that failed, 130 after Ctrl-C with the checkpoint written.
/// The name to look up in libspillway_train.so is "spillway_train".
using TrainFunction = int (*)(TrainOptions const*);

}  // namespace spillway

extern "C" int spillway_train(spillway::TrainOptions const* options);
