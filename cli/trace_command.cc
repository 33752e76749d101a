// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "trace_command.h"

#include "spillway/planning.h"
#include "spillway/trace.h"
#include "text.h"

#include <cstdio>

namespace spillway::cli {

namespace {

constexpr int kNoTrace = 2;

int no_trace(std::string const& why) {
    std::fprintf(stderr, "spillway: trace: %s\n", why.substr(0, why.find('\n')).c_str());
    return kNoTrace;
}

/// Which flag stands where it has no meaning, or is missing; empty: none.
std::string wrong_flags(TraceFlags const& flags) {
    ModelTrace const& model = flags.model;
    if (!model.model.empty()) {
        return !flags.file.empty()     ? "FILE and --model exclude each other"
               : model.machine.empty() ? "--model needs --machine"
                                       : "";
    }
    bool const is_plain = model.machine.empty() && model.batch == 0 && model.sequence == 0 &&
                          model.dtype.empty() && model.optimizer.empty() && model.dropout < 0 &&
                          model.layers == 0 && !flags.unfused_attention;
    return !is_plain            ? "--machine and what describes a step need --model"
           : flags.file.empty() ? "FILE is missing, or --model"
                                : "";
}

std::string at_least_one(std::string const& number) {
    return number == "0" ? "expected at least 1" : "";  // less is out of the model's range
}

}  // namespace

CLI::App& add_trace_command(CLI::App& app, TraceFlags& flags) {
    CLI::App& trace = *app.add_subcommand(
        "trace",
        "Shows what a recorded training step does: times, peaks, saved tensors; or writes the "
        "trace "
        "of a well-known model's step, without running it"
    );
    ModelTrace& model = flags.model;
    trace.add_option("FILE", flags.file, "trace, written by `train --trace` or `session.trace`");
    trace.add_option("--model", model.model, "instead of FILE: " + listed(model_names()))
        ->type_name("NAME");
    trace
        .add_option(
            "--machine", model.machine, "a machine's file, or a name: " + listed(machine_names())
        )
        ->type_name("NAME");
    trace.add_option("--batch", model.batch, "sequences or pictures [the model's]")
        ->type_name("N")
        ->check(&at_least_one);
    trace.add_option("--sequence", model.sequence, "tokens [the model's]")
        ->type_name("N")
        ->check(&at_least_one);
    trace
        .add_option(
            "--dtype", model.dtype, "of parameters and activations: or bfloat16, float16 [float32]"
        )
        ->type_name("NAME");
    trace
        .add_option(
            "--optimizer", model.optimizer, "adamw, momentum, sgd (without a state) [the model's]"
        )
        ->type_name("NAME");
    trace
        .add_option(
            "--layers",
            model.layers,
            "of a transformer (of T5's each stack) or a ResNet [the model's]"
        )
        ->type_name("N")
        ->check(&at_least_one);
    trace.add_option("--dropout", model.dropout, "share that is dropped; 0: none [the model's]")
        ->type_name("SHARE")
        ->check(CLI::Range(0.0, 1.0))
        ->check([](std::string const& text) {  // which CLI11 takes for a number in any range
            return text.starts_with("nan") ? "not a share from 0 to 1" : std::string();
        });
    trace.add_flag(
        "--unfused-attention", flags.unfused_attention, "attention with its scores in memory [off]"
    );
    trace.footer(
        "Example: spillway trace --model gpt2-345m --machine h100 > step.json\n"
        "Exit codes: 0 done, 2 not a valid trace, or no such model or machine"
    );
    return trace;
}

int run_trace(TraceFlags const& flags) {
    if (std::string const why = wrong_flags(flags); !why.empty()) {
        return no_trace(why);
    }
    ModelTrace model = flags.model;
    model.fused_attention = !flags.unfused_attention;
    Result<std::string> const text =
        model.model.empty() ? trace_table(flags.file) : model_trace(model);
    if (!text.ok()) {
        return no_trace(text.error().message());
    }
    std::fputs(text->c_str(), stdout);
    return 0;
}

}  // namespace spillway::cli
