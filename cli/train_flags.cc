// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train_flags.h"

#include "spillway/limits.h"
#include "spillway/policy.h"
#include "text.h"

#include <CLI/CLI.hpp>

#include <sstream>
#include <utility>

namespace spillway::cli {

namespace {

constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

CLI::Validator check(auto function) {
    return {function, "", ""};
}

std::string not_empty(std::string const& text) {
    return text.empty() ? "'' is empty" : "";
}

std::string shown(double number) {
    std::ostringstream text;
    text << number;
    return text.str();
}

/// "online: what leaves is chosen as it runs; keep_all: ..."
std::string help_of_policies() {
    std::string help;
    for (Policy const& policy : policies()) {
        help += help.empty() ? "" : "; ";
        help += policy.name;
        help += policy.is_lossy ? ", with --lossy: " : ": ";
        help += policy.what;
    }
    return help;
}

/// One group of flags in the help text. Each says its default in brackets.
class Group {
  public:
    Group(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

    void whole(
        char const* flag,
        std::int64_t& to,
        std::string const& help,
        WholeNumber range,
        std::string const& otherwise
    ) {
        add(flag, to, help, otherwise)->check(check(range))->type_name("N");
    }

    void fraction(char const* flag, double& to, std::string const& help, Fraction range) {
        add(flag, to, help, shown(to))->check(check(range))->type_name("X");
    }

    void word(
        char const* flag,
        std::string& to,
        std::string const& help,
        char const* type,
        std::string const& otherwise
    ) {
        add(flag, to, help, otherwise)->check(check(not_empty))->type_name(type);
    }

    /// Separated by commas, or given several times.
    void list(
        char const* flag, std::string& to, std::string const& help, std::string const& otherwise
    ) {
        add(flag, to, help, otherwise)
            ->check(check(not_empty))
            ->type_name("LIST")
            ->delimiter(',')
            ->multi_option_policy(CLI::MultiOptionPolicy::Join);
    }

    void yes(char const* flag, bool& to, std::string const& help) {
        app_.add_flag(flag, to, help + " [off]")->group(name_);
    }

  private:
    template <typename Value>
    CLI::Option* add(
        char const* flag, Value& to, std::string const& help, std::string const& otherwise
    ) {
        return app_.add_option(flag, to, help + " [" + otherwise + "]")->group(name_)->take_last();
    }

    CLI::App& app_;
    std::string name_;
};

void add_model(CLI::App& app, TrainOptions& options) {
    Group group(app, "Model");
    group.word(
        "--preset",
        options.preset,
        "gpt2-124m, gpt2-345m, gpt2-774m, gpt2-1.5b or llama2-7b: sizes, which flags below change",
        "NAME",
        "none: the demo's model"
    );
    group.word("--style", options.style, "gpt2 or llama2", "NAME", "the preset's, else gpt2");
    group.whole("--layers", options.layers, "blocks", {1, kMostLayers}, "the preset's, else 6");
    group.whole(
        "--heads", options.heads, "attention heads", {1, kMostWidth}, "the preset's, else 8"
    );
    group.whole(
        "--kv-heads",
        options.kv_heads,
        "key and value heads, llama2 only",
        {1, kMostWidth},
        "the preset's, else as --heads"
    );
    group.whole(
        "--width", options.width, "model dimension", {1, kMostWidth}, "the preset's, else 512"
    );
    group.whole(
        "--hidden",
        options.hidden,
        "feed-forward dimension",
        {1, kMostWidth},
        "the preset's, else 4 x width; llama2: 8/3 x width, up to a multiple of 256"
    );
    group.whole(
        "--vocab-size",
        options.vocab_size,
        "token ids; bytes use the first 256",
        {1, kMostTokens},
        "the preset's, else 256"
    );
    group.whole(
        "--sequence",
        options.sequence,
        "tokens a sample",
        {1, kMostTokens},
        "the preset's, else 1024"
    );
    group.whole(
        "--batch",
        options.batch,
        "samples a micro-batch",
        {1, kMostTokens},
        "1 with a preset, else 10"
    );
    group.fraction("--dropout", options.dropout, "probability", {0.0, 1.0, true});
}

void add_training(CLI::App& app, TrainOptions& options) {
    Group group(app, "Training");
    group.word(
        "--data",
        options.data,
        "text to train on, byte by byte: a file or a folder (at most 16 MiB)",
        "PATH",
        "text on this machine, such as Python's library sources"
    );
    group.whole("--steps", options.steps, "updates in all", {1, kMostSteps}, "20");
    group.whole(
        "--validate-every",
        options.validate_every,
        "keep the text's last tenth out of training and measure the loss on it after every N "
        "updates and the last",
        {1, kMostSteps},
        "all text is trained on"
    );
    group.whole("--seed", options.seed, "of weights, data order, dropout", {0, INT64_MAX}, "0");
    group.whole(
        "--accumulate", options.accumulate, "micro-batches an update", {1, kMostTokens}, "1"
    );
    group.fraction(
        "--lr",
        options.learning_rate,
        "learning rate after the warm-up; a cosine takes it to a tenth",
        {0.0, 1e3}
    );
    group.whole(
        "--warmup", options.warmup_steps, "updates of linear warm-up", {0, kMostSteps}, "10"
    );
    group.fraction("--weight-decay", options.weight_decay, "AdamW's, on matrices", {0.0, 1e3});
    group.fraction("--beta1", options.beta1, "AdamW's", {0.0, 1.0, true});
    group.fraction("--beta2", options.beta2, "AdamW's", {0.0, 1.0, true});
    group.fraction("--clip", options.clip, "most the gradients' norm may be; 0: any", {0.0, 1e9});
    group.word("--precision", options.precision, "fp32, or bf16 by autocast", "NAME", "fp32");
    group.word("--device", options.device, "cpu, cuda (the first GPU) or cuda:N", "NAME", "cpu");
    group.whole(
        "--threads",
        options.threads,
        "threads of torch's operators",
        {1, 4096},
        "as torch chooses: one a core"
    );
}

void add_budget(CLI::App& app, TrainOptions& options, TrainText& text) {
    Group group(app, "Budget (sizes: 600MiB, 1.5GiB, 700MB, 80%)");
    group.word(
        "--device-budget",
        text.device_budget,
        "most bytes of the device, a hard cap; % (cpu only) is of this machine's memory or its "
        "cgroup's limit",
        "SIZE",
        "none: nothing is moved"
    );
    group.word(
        "--host-budget",
        text.host_budget,
        "host memory that saved tensors may wait in",
        "SIZE",
        "0 on the CPU or beside --nvme; else 4 x --device-budget, at most half of what is left"
    );
    group.word(
        "--nvme", options.nvme, "folder, on a disk, that saved tensors may wait in", "PATH", "none"
    );
    group.word(
        "--nvme-budget",
        text.nvme_budget,
        "most bytes there; % is of its free space",
        "SIZE",
        "nine tenths of the free space"
    );
    group.yes("--nvme-allow-tmpfs", options.nvme_allow_tmpfs, "let --nvme be a memory file system");
    group.word("--policy", options.policy, help_of_policies(), "NAME", "online");
    group.word(
        "--nvme-rate",
        text.nvme_rate,
        "slow --nvme down to so many bytes a second each way, as a slower drive or link would be",
        "SIZE",
        "as fast as it is"
    );
}

void add_codecs(CLI::App& app, TrainOptions& options) {
    Group group(app, "Codecs");
    group.yes(
        "--lossy", options.lossy, "let codecs lose something; without it what would is refused"
    );
    group.list(
        "--codec",
        options.codec,
        "in place of the policy's: affine4, for inputs of linear layers, convolutions, norms and "
        "activations; CLASS=CODEC for one class (linear_input, convolution_input, norm_input, "
        "activation_input, relu_output, mask, attention, statistics, index, other); "
        "affine4:group=128,stochastic,absmax; all=lossless; several with commas; `spillway codecs` "
        "lists them",
        "the policy's own"
    );
    group.word(
        "--nonfinite",
        options.nonfinite,
        "tensors with NaN or infinity, where a codec cannot give these back: keep (they leave as "
        "they are) or refuse",
        "NAME",
        "keep"
    );
    group.yes(
        "--measure-gradient-error",
        options.measure_gradient_error,
        "after the last update, compare one more step's gradients with those of a lossless run of "
        "it"
    );
}

void add_output(CLI::App& app, TrainOptions& options) {
    Group group(app, "Output");
    group.word(
        "--checkpoint",
        options.checkpoint,
        "folder to write at the end and on Ctrl-C; an older checkpoint there is replaced",
        "DIR",
        "none"
    );
    group.whole(
        "--checkpoint-every",
        options.checkpoint_every,
        "also after every N updates",
        {1, kMostSteps},
        "only at the end"
    );
    group.word(
        "--resume",
        options.resume,
        "checkpoint to go on from, to the last bit; wants the model's flags again",
        "DIR",
        "none"
    );
    group.word("--json", options.json, "file for losses, times, peaks, bytes", "FILE", "none");
    group.yes(
        "--count-allocations",
        options.count_allocations,
        "count a plain run's allocations (slower; for measurements); a GPU's allocator always does"
    );
    group.word(
        "--flight-record",
        options.flight_record,
        "file for the last steps' events and commands, written when a step fails",
        "FILE",
        "none"
    );
    group.word(
        "--record-events",
        options.record_events,
        "file for the session's events and commands",
        "FILE",
        "none"
    );
    group.word(
        "--timeline",
        options.timeline_file,
        "file of stalls, copies, NVMe and bytes over time, for Perfetto or chrome://tracing",
        "FILE",
        "none"
    );
}

}  // namespace

void add_train_flags(CLI::App& app, TrainOptions& options, TrainText& text) {
    add_model(app, options);
    add_training(app, options);
    add_budget(app, options, text);
    add_codecs(app, options);
    add_output(app, options);
}

void read_sizes(TrainText const& text, TrainOptions& options) {
    options.device_budget_typed = text.device_budget;
    options.host_budget_typed = text.host_budget;
    options.nvme_budget_typed = text.nvme_budget;
    // Whose memory that is a share of, torch would have to say, and this program does not link it.
    if (text.device_budget.ends_with('%') && options.device != "cpu") {
        throw CLI::ValidationError(
            "--device-budget",
            "'" + text.device_budget + "' is a share of this machine's memory, not of --device " +
                options.device + "'s; say how much, as in 16GiB"
        );
    }
    if (!text.device_budget.empty()) {
        options.device_budget_bytes =
            size_of("--device-budget", text.device_budget, memory_limit_bytes());
    }
    if (!text.host_budget.empty()) {
        options.host_budget_bytes =
            size_of("--host-budget", text.host_budget, memory_limit_bytes(), 0);
    }
    options.nvme_rate_typed = text.nvme_rate;
    if (!text.nvme_rate.empty()) {
        options.nvme_rate_bytes_per_s = size_of("--nvme-rate", text.nvme_rate, 0);
    }
    if (!text.nvme_budget.empty()) {
        if (options.nvme.empty()) {
            throw CLI::ValidationError(
                "--nvme-budget", "'" + text.nvme_budget + "' needs --nvme PATH"
            );
        }
        options.nvme_budget_bytes =
            size_of("--nvme-budget", text.nvme_budget, free_bytes_of(options.nvme));
    }
}

}  // namespace spillway::cli
