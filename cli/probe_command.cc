// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "probe_command.h"

#include "spillway/planning.h"

#include <array>
#include <cstdio>

namespace spillway::cli {

namespace {

constexpr int kNotMeasured = 2;

/// The folder first: a share of its free space is read after it.
constexpr std::array<std::string_view, 5> kPlaces{
    "nvme", "host_budget_bytes", "nvme_budget_bytes", "nvme_allow_tmpfs", "nvme_rate_bytes_per_s"};

int not_measured(std::string const& why) {
    std::fprintf(stderr, "spillway: probe: %s\n", why.substr(0, why.find('\n')).c_str());
    return kNotMeasured;
}

std::string help_of(Option const& option) {
    bool const is_host = option.name == "host_budget_bytes";  // elsewhere it depends on the device
    return describe(option, Face::program) + " [" +
           (is_host ? "none" : describe_default(option, Face::program)) + "]";
}

}  // namespace

CLI::App& add_probe_command(CLI::App& app, ProbeFlags& flags) {
    CLI::App& probe = *app.add_subcommand(
        "probe",
        "Measures how fast bytes move to and from places of this machine where saved tensors may "
        "wait"
    );
    for (std::string_view const name : kPlaces) {
        Option const& option = *find_option(name);
        std::string const flag(option.flag);
        if (option.type == OptionType::toggle) {
            probe.add_flag(flag, flags.options.nvme_allow_tmpfs, help_of(option));
            continue;
        }
        char const* const type = option.type == OptionType::folder ? "PATH" : "SIZE";
        probe.add_option(flag, flags.typed[name], help_of(option))->take_last()->type_name(type);
    }
    probe.footer(
        "Example: spillway probe --nvme /scratch > machine.json\n"
        "Takes a second for each place. The device is the CPU, with all memory of this machine.\n"
        "FLOP/s, for traces of models, and interference are measured by spillway.probe in Python.\n"
        "Exit codes: 0 done, 2 an invalid value, or a place that cannot be used"
    );
    return probe;
}

int run_probe(ProbeFlags flags) {
    flags.options.face = Face::program;
    for (std::string_view const name : kPlaces) {
        auto const typed = flags.typed.find(name);
        if (typed == flags.typed.end() || typed->second.empty()) {
            continue;
        }
        Option const& option = *find_option(name);
        if (auto const wrong = read_option(option, typed->second, 0, flags.options)) {
            return not_measured(std::string(option.flag) + ": " + words_of(*wrong, Face::program));
        }
    }
    Result<std::string> const machine = machine_text_here(flags.options);
    if (!machine.ok()) {
        return not_measured(machine.error().message());
    }
    std::fputs(machine->c_str(), stdout);
    return 0;
}

}  // namespace spillway::cli
