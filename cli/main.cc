// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The program: reads flags and hands over. Every error is one line and exit code 2.

#include "codecs_command.h"
#include "planning_commands.h"
#include "probe_command.h"
#include "replay_command.h"
#include "trace_command.h"
#include "train_command.h"
#include "train_flags.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>
#include <string_view>

#ifndef SPILLWAY_VERSION
#define SPILLWAY_VERSION "0.1.0"
#endif

namespace {

constexpr int kBadValue = 2;
constexpr std::string_view kSubcommands =
    "train, trace, plan, simulate, compare, fit, probe, replay and codecs";

int refused(std::string const& line) {
    std::fprintf(stderr, "spillway: %s\n", line.substr(0, line.find('\n')).c_str());
    return kBadValue;
}

/// `subcommand`: " plan"; empty: none was read.
int refused_word(std::string const& line, std::string const& subcommand) {
    std::string const first = line.substr(0, line.find('\n'));
    return refused(first + "; see `spillway" + subcommand + " --help`");
}

// Why the first word is neither a subcommand nor a flag; CLI11 would call it an extra argument.
std::string unknown_first_word(int count, char const* const* words) {
    if (count < 2) {
        return "a subcommand is missing; there are " + std::string(kSubcommands);
    }
    std::string const first = words[1];
    for (std::string_view const known :
         {"train",
          "trace",
          "plan",
          "simulate",
          "compare",
          "fit",
          "probe",
          "replay",
          "codecs",
          "-h",
          "--help",
          "--version"}) {
        if (first == known) {
            return "";
        }
    }
    return "'" + first + "' is not a " + (first.starts_with('-') ? "flag" : "subcommand") +
           "; there are " + std::string(kSubcommands);
}

int run(int count, char** words) {
    CLI::App app{"Spillway trains models that do not fit: saved activations wait on a disk."};
    app.name("spillway");
    app.set_version_flag("--version", "spillway " SPILLWAY_VERSION);
    app.require_subcommand(1);
    CLI::App& train = *app.add_subcommand(
        "train", "Trains a GPT-2 or LLaMA style model on text, under a budget of device bytes"
    );
    train.footer(
        "Example: spillway train --device-budget 700MiB --nvme /scratch --steps 50\n"
        "Exit codes: 0 done, 1 failed, 2 an invalid value, 130 after Ctrl-C"
    );
    spillway::cli::TraceFlags traced;
    CLI::App const& trace = spillway::cli::add_trace_command(app, traced);
    spillway::cli::PlanningFlags planning;
    spillway::cli::add_planning_commands(app, planning);
    spillway::cli::ProbeFlags probed;
    CLI::App const& probe = spillway::cli::add_probe_command(app, probed);
    CLI::App& replay =
        *app.add_subcommand("replay", "Replays a recorded run and compares the commands");
    std::string record;
    replay.add_option("FILE", record, "event log, written by --flight-record or --record-events")
        ->required();
    replay.footer("Exit codes: 0 the same commands, 1 other commands, 2 not a valid event log");
    CLI::App& codecs = *app.add_subcommand(
        "codecs",
        "Every codec: bits, error bound, exact encoded size, and its speed on this machine"
    );
    std::string codecs_file;
    codecs.add_option("--json", codecs_file, "a file for the same as JSON")->type_name("FILE");
    codecs.footer("Takes a second or two, and 250 MB of memory");
    spillway::TrainOptions options;
    spillway::cli::add_train_flags(train, options);
    if (std::string const why = unknown_first_word(count, words); !why.empty()) {
        return refused_word(why, "");
    }
    try {
        app.parse(count, words);
        if (train.parsed()) {
            spillway::cli::read_sizes(options);
        }
    } catch (CLI::Success const& asked) {
        return app.exit(asked);
    } catch (CLI::ValidationError const& failure) {
        return refused(failure.what());
    } catch (CLI::RequiresError const&) {
        return refused(spillway::cli::why_not_together(train));
    } catch (CLI::ExcludesError const&) {
        return refused(spillway::cli::why_not_together(train));
    } catch (CLI::ParseError const& failure) {
        return refused_word(failure.what(), std::string(" ") + words[1]);
    }
    if (codecs.parsed()) {
        return spillway::cli::run_codecs(codecs_file);
    }
    if (int const code = spillway::cli::run_planning(app, planning); code >= 0) {
        return code;
    }
    if (probe.parsed()) {
        return spillway::cli::run_probe(probed);
    }
    if (trace.parsed()) {
        return spillway::cli::run_trace(traced);
    }
    return replay.parsed() ? spillway::cli::run_replay(record) : spillway::cli::run_train(options);
}

}  // namespace

int main(int count, char** words) {
    int const code = run(count, words);
    if (bool const is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
        code == 0 && !is_written) {
        return refused("standard output cannot be written, is the disk full?");
    }
    return code;
}
