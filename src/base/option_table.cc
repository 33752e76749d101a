// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/option_table.h"

#include <algorithm>
#include <array>

namespace spillway {

namespace {

constexpr std::string_view kBudget = "Budget (sizes: 600MiB, 1.5GiB, 700MB, 80%)";
constexpr std::string_view kCodecs = "Codecs";
constexpr std::string_view kOutput = "Output";
constexpr std::string_view kTraining = "Training";

constexpr std::array<std::string_view, 2> kNonFinite{"keep", "refuse"};
constexpr std::array<std::string_view, 3> kRecompute{"auto", "on", "off"};
constexpr std::array<std::string_view, 2> kStates{"stay", "optimizer"};

constexpr std::array kTable{
    Option{
        .name = "device_budget_bytes",
        .python = "device_budget",
        .flag = "--device-budget",
        .type = OptionType::bytes,
        .member = &SessionOptions::device_budget_bytes,
        .help = "hard cap on the bytes of the device that training may use; a share is of "
                "this machine's memory or its cgroup's limit",
        .python_help = "hard cap on the bytes of the device that training may use; a share is of "
                       "the GPU's memory, or on the CPU of this machine's memory or its cgroup's "
                       "limit",
        .otherwise = "no cap: nothing is moved",
        .python_otherwise = "required",
        .group = kBudget,
        .least = 4096,
        .least_words = "4 KiB, one page",
        .share_of = ShareOf::device_memory},
    Option{
        .name = "host_budget_bytes",
        .python = "host_budget",
        .flag = "--host-budget",
        .type = OptionType::bytes,
        .member = &SessionOptions::host_budget_bytes,
        .help = "host memory where saved tensors may wait",
        .otherwise = "0 on the CPU or beside `nvme`; else 4 x `device_budget_bytes`, at most half "
                     "of what is left",
        .python_otherwise = "0 on the CPU, half of the free host memory on a GPU",
        .group = kBudget,
        .share_of = ShareOf::host_memory},
    Option{
        .name = "nvme",
        .python = "nvme",
        .flag = "--nvme",
        .type = OptionType::folder,
        .member = &SessionOptions::nvme,
        .help = "existing folder, on a disk, where saved tensors may wait",
        .otherwise = "none",
        .group = kBudget},
    Option{
        .name = "nvme_budget_bytes",
        .python = "nvme_budget",
        .flag = "--nvme-budget",
        .type = OptionType::bytes,
        .member = &SessionOptions::nvme_budget_bytes,
        .help = "most bytes to use in `nvme`; a share is of its free space",
        .otherwise = "nine tenths of the free space",
        .group = kBudget,
        .least = 4096,
        .least_words = "4 KiB, the smallest block",
        .share_of = ShareOf::free_space,
        .needs = "nvme"},
    Option{
        .name = "nvme_allow_tmpfs",
        .python = "nvme_allow_tmpfs",
        .flag = "--nvme-allow-tmpfs",
        .type = OptionType::toggle,
        .member = &SessionOptions::nvme_allow_tmpfs,
        .help = "allow `nvme` to be on a file system in memory (tmpfs)",
        .group = kBudget},
    Option{
        .name = "nvme_rate_bytes_per_s",
        .python = "nvme_rate",
        .flag = "--nvme-rate",
        .type = OptionType::rate,
        .member = &SessionOptions::nvme_rate_bytes_per_s,
        .help = "limit `nvme` to this many bytes a second each way, to imitate a slower "
                "drive or link",
        .otherwise = "as fast as it is",
        .group = kBudget,
        .least = 1,
        .needs = "nvme"},
    Option{
        .name = "policy",
        .python = "policy",
        .flag = "--policy",
        .type = OptionType::policy,
        .member = &SessionOptions::policy,
        .help = "decides which saved tensors leave the device, and when",
        .group = kBudget},
    Option{
        .name = "plan",
        .python = "plan",
        .flag = "--plan",
        .type = OptionType::plan,
        .member = &SessionOptions::plan,
        .help = "file of a plan (docs/formats/plan.md) that steps run by from the first one on; "
                "saved tensors that it does not name are left to the policy online",
        .otherwise = "none",
        .group = kBudget,
        .needs = "device_budget_bytes"},
    Option{
        .name = "recompute",
        .python = "recompute",
        .flag = "--recompute",
        .type = OptionType::choice,
        .member = &SessionOptions::recompute,
        .help = "whether saved tensors may be dropped and made again by the operators that made "
                "them, bit for bit; auto: where the policy plans so or there is no place to move "
                "to; on: always; off: never",
        .group = kBudget,
        .choices = kRecompute,
        .flag_needs = "device_budget_bytes"},
    Option{
        .name = "states",
        .python = "states",
        .flag = "--states",
        .type = OptionType::choice,
        .member = &SessionOptions::states,
        .help =
            "which of what a model trains with may leave the device beside saved tensors; stay: "
            "nothing; optimizer: the optimizer's state, between two of its steps",
        .group = kBudget,
        .choices = kStates,
        .flag_needs = "device_budget_bytes"},
    Option{
        .name = "min_value_bytes",
        .python = "min_tensor_bytes",
        .flag = {},
        .type = OptionType::bytes,
        .member = &SessionOptions::min_value_bytes,
        .help = "saved tensors smaller than this stay on the device",
        .otherwise = "64 KiB"},
    Option{
        .name = "lossy",
        .python = "lossy",
        .flag = "--lossy",
        .type = OptionType::toggle,
        .member = &SessionOptions::lossy,
        .help = "allow codecs that lose precision; without it they are refused",
        .group = kCodecs,
        .flag_needs = "device_budget_bytes"},
    Option{
        .name = "codecs",
        .python = "codec",
        .flag = "--codec",
        .type = OptionType::codecs,
        .member = &SessionOptions::codecs,
        .help = "codecs in place of the policy's, separated by commas: affine4, "
                "attention=affine8:group=64 for one class, all=lossless for every class; see "
                "docs/lossy.md",
        .otherwise = "the policy's own",
        .group = kCodecs,
        .flag_needs = "device_budget_bytes"},
    Option{
        .name = "nonfinite",
        .python = "nonfinite",
        .flag = "--nonfinite",
        .type = OptionType::choice,
        .member = &SessionOptions::nonfinite,
        .help = "what to do with tensors that hold NaN or infinity when a codec cannot "
                "restore these: keep (store them as they are) or refuse (stop the step "
                "that needs one)",
        .group = kCodecs,
        .choices = kNonFinite,
        .flag_needs = "device_budget_bytes"},
    Option{
        .name = "rounding_seed",
        .python = "rounding_seed",
        .flag = {},
        .type = OptionType::integer,
        .member = &SessionOptions::rounding_seed,
        .help = "seed of stochastic rounding; runs with the same seed round identically",
        .otherwise = "from torch's CPU seed, the rank, and the number of sessions opened before"},
    Option{
        .name = "record_events",
        .python = "record_events",
        .flag = "--record-events",
        .type = OptionType::file,
        .member = &SessionOptions::record_events,
        .help = "file to write the session's events and commands to",
        .otherwise = "none",
        .group = kOutput,
        .flag_needs = "device_budget_bytes"},
    Option{
        .name = "flight_record",
        .python = "flight_record",
        .flag = "--flight-record",
        .type = OptionType::file,
        .member = &SessionOptions::flight_record,
        .help = "file to write the last steps' events and commands to when a step fails",
        .otherwise = "none",
        .group = kOutput,
        .flag_needs = "device_budget_bytes"},
    Option{
        .name = "timeline_file",
        .python = "timeline",
        .flag = "--timeline",
        .type = OptionType::file,
        .member = &SessionOptions::timeline_file,
        .help = "file to write a timeline to when the session closes (stalls, copies, "
                "NVMe, bytes), for Perfetto or chrome://tracing",
        .otherwise = "none",
        .group = kOutput,
        .flag_needs = "device_budget_bytes"},
    Option{
        .name = "device",
        .python = {},
        .flag = "--device",
        .type = OptionType::word,
        .member = &SessionOptions::device,
        .help = "cpu, cuda (the first GPU) or cuda:N",
        .group = kTraining},
    Option{
        .name = "rank",
        .python = {},
        .flag = {},
        .type = OptionType::integer,
        .member = &SessionOptions::rank,
        .help = "rank of this process among those that train together",
        .otherwise = "0"},
    Option{
        .name = "cap_from_open",
        .python = {},
        .flag = {},
        .type = OptionType::toggle,
        .member = &SessionOptions::cap_from_open,
        .help = "enforce the cap from the opening on; if false, on the CPU, only while a "
                "Recording or its graph lives"},
    Option{
        .name = "whole_process",
        .python = {},
        .flag = {},
        .type = OptionType::toggle,
        .member = &SessionOptions::whole_process,
        .help = "count allocations of every thread, not only those of the thread that "
                "opens the session"},
    Option{
        .name = "keep_timeline",
        .python = {},
        .flag = {},
        .type = OptionType::toggle,
        .member = &SessionOptions::keep_timeline,
        .help = "keep the last steps for Session::write_timeline and Session::explain"},
};

template <typename Value>
bool differs(Value SessionOptions::*member, SessionOptions const& options) {
    return options.*member != SessionOptions{}.*member;
}

std::string words_of_toggle(bool is_on, Face face) {
    switch (face) {
        case Face::cpp:
            break;
        case Face::python:
            return is_on ? "True" : "False";
        case Face::program:
            return is_on ? "on" : "off";
    }
    return is_on ? "true" : "false";
}

}  // namespace

std::string_view name_of(OptionType type) {
    constexpr std::array<std::string_view, 11> kNames{
        "bytes",
        "rate",
        "integer",
        "toggle",
        "choice",
        "policy",
        "plan",
        "codecs",
        "folder",
        "file",
        "word"};
    return kNames[static_cast<std::size_t>(type)];
}

std::span<Option const> option_table() {
    return kTable;
}

Option const* find_option(std::string_view name, Face face) {
    auto const* const found = std::find_if(kTable.begin(), kTable.end(), [&](Option const& option) {
        return option_name(option.name, face) == name;
    });
    return found == kTable.end() ? nullptr : found;
}

bool is_given(Option const& option, SessionOptions const& options) {
    return std::visit([&](auto member) { return differs(member, options); }, option.member);
}

std::string default_words(Option const& option, Face face) {
    bool const is_python = face == Face::python && !option.python_otherwise.empty();
    std::string_view const otherwise = is_python ? option.python_otherwise : option.otherwise;
    if (!otherwise.empty()) {
        return std::string(otherwise);
    }
    SessionOptions const defaults;
    if (auto const* const toggle = std::get_if<bool SessionOptions::*>(&option.member)) {
        return words_of_toggle(defaults.*(*toggle), face);
    }
    std::string const& text = defaults.*std::get<std::string SessionOptions::*>(option.member);
    return face == Face::program ? text : '"' + text + '"';
}

}  // namespace spillway
