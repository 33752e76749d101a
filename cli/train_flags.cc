// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train_flags.h"

#include "spillway/limits.h"
#include "spillway/option.h"
#include "text.h"

#include <CLI/CLI.hpp>

#include <utility>
#include <variant>
#include <vector>

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

/// One group of flags in the help text. Defaults are in brackets.
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

    void whole(char const* flag, std::int64_t& to, std::string const& help, WholeNumber range) {
        whole(flag, to, help, range, std::to_string(to));
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

    void choice(
        char const* flag,
        std::string& to,
        std::string const& help,
        std::vector<std::string> const& names
    ) {
        add(flag, to, help, to)->check(CLI::IsMember(names))->type_name("NAME");
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
        "sizes of gpt2-124m, gpt2-345m, gpt2-774m, gpt2-1.5b or llama2-7b; the flags below "
        "override them",
        "NAME",
        "none: the demo's model"
    );
    group.word("--style", options.style, "gpt2 or llama2", "NAME", "the preset's, else gpt2");
    group.whole(
        "--layers", options.layers, "transformer blocks", {1, kMostLayers}, "the preset's, else 6"
    );
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
        "tokens per sample",
        {1, kMostTokens},
        "the preset's, else 1024"
    );
    group.whole(
        "--batch",
        options.batch,
        "samples per micro-batch",
        {1, kMostTokens},
        "1 with a preset, else 10"
    );
    group.fraction("--dropout", options.dropout, "dropout probability", {0.0, 1.0, true});
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
    group.whole("--steps", options.steps, "optimizer updates in total", {1, kMostSteps});
    group.whole(
        "--validate-every",
        options.validate_every,
        "keep the text's last tenth out of training and measure the loss on it after every N "
        "updates and the last",
        {1, kMostSteps},
        "all text is trained on"
    );
    group.whole("--seed", options.seed, "seed of weights, data order and dropout", {0, INT64_MAX});
    group.whole("--accumulate", options.accumulate, "micro-batches per update", {1, kMostTokens});
    group.fraction(
        "--lr",
        options.learning_rate,
        "learning rate after the warm-up; it decays to a tenth along a cosine",
        {0.0, 1e3}
    );
    group.whole("--warmup", options.warmup_steps, "updates of linear warm-up", {0, kMostSteps});
    group.fraction(
        "--weight-decay",
        options.weight_decay,
        "AdamW's weight decay, for matrices only",
        {0.0, 1e3}
    );
    group.fraction("--beta1", options.beta1, "AdamW's beta1", {0.0, 1.0, true});
    group.fraction("--beta2", options.beta2, "AdamW's beta2", {0.0, 1.0, true});
    group.fraction(
        "--clip", options.clip, "clip gradients to this global norm; 0: do not clip", {0.0, 1e9}
    );
    group.choice("--precision", options.precision, "bf16 trains under autocast", {"fp32", "bf16"});
    group.whole(
        "--threads",
        options.threads,
        "threads that an operator may use",
        {1, 4096},
        "torch's default: one per core"
    );
}

/// What its value is called in the help text.
char const* type_name_of(OptionType type) {
    switch (type) {
        case OptionType::bytes:
        case OptionType::rate:
            return "SIZE";
        case OptionType::integer:
            return "N";
        case OptionType::codecs:
            return "LIST";
        case OptionType::folder:
            return "PATH";
        case OptionType::plan:
        case OptionType::file:
            return "FILE";
        case OptionType::toggle:
        case OptionType::choice:
        case OptionType::policy:
        case OptionType::word:
            break;
    }
    return "NAME";
}

/// A flag of the session's table. Sizes are read after parsing: what a share is of depends on other
/// flags.
void add_session_flag(CLI::App& app, Option const& option, TrainOptions& options) {
    std::string const flag(option.flag);
    std::string const help =
        describe(option, Face::program) + " [" + describe_default(option, Face::program) + "]";
    CLI::Option* added = nullptr;
    if (auto const* const toggle = std::get_if<bool SessionOptions::*>(&option.member)) {
        added = app.add_flag(flag, options.session.*(*toggle), help);
    } else {
        auto const* const text = std::get_if<std::string SessionOptions::*>(&option.member);
        std::string& to =
            text != nullptr ? options.session.*(*text) : options.typed[std::string(option.name)];
        added = app.add_option(flag, to, help)->take_last()->type_name(type_name_of(option.type));
        auto const names = choices_of(option);
        CLI::Validator const is_member =
            CLI::IsMember(std::vector<std::string>(names.begin(), names.end()));
        if (option.type == OptionType::policy) {  // parameters may follow its name
            added->check(CLI::Validator(
                [is_member](std::string const& policy) {
                    return is_member(policy.substr(0, policy.find(':')));
                },
                is_member.get_description()
            ));
        } else {
            added->check(names.empty() ? check(not_empty) : is_member);
        }
    }
    added->group(std::string(option.group));
    if (option.type == OptionType::codecs) {
        added->delimiter(',')->multi_option_policy(CLI::MultiOptionPolicy::Join);
    }
}

void add_session(CLI::App& app, TrainOptions& options) {
    auto const flags = [](Option const& option) { return !option.flag.empty(); };
    for (Option const& option : option_table()) {
        if (flags(option)) {
            add_session_flag(app, option, options);
        }
    }
    for (Option const& option : option_table()) {
        for (std::string_view const needed : {option.needs, option.flag_needs}) {
            if (flags(option) && !needed.empty()) {
                app.get_option(std::string(option.flag))
                    ->needs(app.get_option(std::string(option_name(needed, Face::program))));
            }
        }
    }
}

void add_gradient_error(CLI::App& app, TrainOptions& options) {
    Group group(app, "Codecs");
    group.yes(
        "--measure-gradient-error",
        options.measure_gradient_error,
        "after the last update, compare one more step's gradients with those of a lossless run of "
        "it"
    );
    app.get_option("--measure-gradient-error")->needs(app.get_option("--lossy"));
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
        "also write a checkpoint after every N updates",
        {1, kMostSteps},
        "only at the end"
    );
    group.word(
        "--resume",
        options.resume,
        "checkpoint to resume from, bit for bit; pass the same model flags",
        "DIR",
        "none"
    );
    group.word("--json", options.json, "file for losses, times, peaks, bytes", "FILE", "none");
    group.word(
        "--trace",
        options.trace,
        "file for what the last of two or more steps does, point by point; `spillway trace` shows "
        "it",
        "FILE",
        "none"
    );
    group.yes(
        "--count-allocations",
        options.count_allocations,
        "count a plain run's allocations (slower; for measurements); a GPU's allocator always does"
    );
    app.get_option("--trace")->needs(app.get_option("--device-budget"));
    app.get_option("--checkpoint-every")->needs(app.get_option("--checkpoint"));
    app.get_option("--count-allocations")->excludes(app.get_option("--device-budget"));
}

/// "--codec affine4"; of a switch its name.
std::string as_typed(CLI::Option const& option) {
    bool const has_value = !option.get_type_name().empty() && option.count() > 0;
    return option.get_name() + (has_value ? " " + option.results().back() : "");
}

/// "--device-budget SIZE"
std::string as_shown(CLI::Option const& option) {
    std::string const type = option.get_type_name();
    return option.get_name() + (type.empty() ? "" : " " + type.substr(0, type.find(':')));
}

}  // namespace

void add_train_flags(CLI::App& app, TrainOptions& options) {
    add_model(app, options);
    add_training(app, options);
    add_session(app, options);
    add_gradient_error(app, options);
    add_output(app, options);
}

std::string why_not_together(CLI::App const& app) {
    for (CLI::Option const* const option : app.get_options()) {
        if (option->count() == 0) {
            continue;
        }
        for (CLI::Option const* const needed : option->get_needs()) {
            if (needed->count() == 0) {
                return as_typed(*option) + ": needs " + as_shown(*needed);
            }
        }
        for (CLI::Option const* const excluded : option->get_excludes()) {
            if (excluded->count() > 0) {
                return as_typed(*option) + ": cannot be used together with " + as_typed(*excluded);
            }
        }
    }
    return "";
}

void read_sizes(TrainOptions& options) {
    // Only torch knows the size of a GPU's memory, and this program does not link torch.
    SessionOptions& session = options.session;
    std::string const& budget = options.typed["device_budget_bytes"];
    if (budget.ends_with('%') && session.device != "cpu") {
        throw CLI::ValidationError(
            "--device-budget",
            "'" + budget + "' is a share of this machine's memory, not of --device " +
                session.device + "'s; give bytes, such as 16GiB"
        );
    }
    for (Option const& option : option_table()) {
        auto const typed = options.typed.find(option.name);
        if (typed == options.typed.end() || typed->second.empty()) {
            continue;
        }
        if (auto const wrong = read_option(option, typed->second, memory_limit_bytes(), session)) {
            throw CLI::ValidationError(std::string(option.flag), words_of(*wrong, Face::program));
        }
    }
}

}  // namespace spillway::cli
