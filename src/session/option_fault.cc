// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/units.h"
#include "policy/catalog.h"
#include "spillway/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace spillway {

namespace {

constexpr std::array<std::string_view, 20> kCodeNames{
    "not_a_size",      "not_a_whole_number", "not_a_toggle",   "zero",
    "negative",        "below_least",        "unknown_choice", "needs_other",
    "not_writable",    "not_readable",       "excludes_other", "makes_again",
    "loses_precision", "not_deterministic",  "has_no_effect",  "no_kernels",
    "no_tier",         "below_owned",        "above_free",     "failed"};
static_assert(kCodeNames.size() == static_cast<std::size_t>(OptionCode::failed) + 1);

/// `given` in quotes; empty for the program, which shows it itself: "--codec affine4: cannot be".
std::string quoted(std::string const& given, Face face) {
    return given.empty() || face == Face::program ? "" : "'" + given + "' ";
}

Option const& option_of(OptionFault const& fault) {
    static constexpr Option kNone{};
    Option const* const option = find_option(fault.option);
    return option != nullptr ? *option : kNone;
}

std::string words_of_zero(OptionFault const& fault) {
    ShareOf const share = option_of(fault).share_of;
    return fmt::format(
        "'{}' must be greater than 0; write bytes, such as '16GiB'{}{}",
        fault.given,
        share == ShareOf::nothing ? "" : " or '80%'",
        share == ShareOf::device_memory ? "; to only measure what training takes, give more than "
                                          "it can take ('1TiB')"
                                        : ""
    );
}

std::string words_of_least(OptionFault const& fault) {
    std::string_view const words = option_of(fault).least_words;
    return fmt::format(
        "{} is less than {}",
        fault.number,
        words.empty() ? std::to_string(fault.bound) : std::string(words)
    );
}

std::string words_of_choice(OptionFault const& fault) {
    Option const& option = option_of(fault);
    return option.type == OptionType::policy
               ? fmt::format("unknown policy '{}'; choose from {}", fault.given, policy_names())
               : fmt::format(
                     "unknown value '{}'; choose {}",
                     fault.given,
                     fmt::join(choices_of(option), " or ")
                 );
}

std::string words_of_loss(OptionFault const& fault, Face face) {
    std::size_t const at = fault.detail.find('=');
    return fmt::format(
        "{}{}: {} would lose precision with {}; {}",
        quoted(fault.given, face),
        fault.option == "policy" ? "quantizes what it moves" : "cannot be used",
        std::string_view(fault.detail).substr(0, at),
        std::string_view(fault.detail).substr(at + 1),
        with_option_names("pass `lossy` to allow it", face)
    );
}

std::string words_of_exclusion(OptionFault const& fault, Face face) {
    std::size_t const at = fault.detail.find('=');
    return fmt::format(
        "it stands in place of {}, which is '{}'; leave one of the two out",
        with_option_names("`" + fault.detail.substr(0, at) + "`", face),
        std::string_view(fault.detail).substr(at + 1)
    );
}

std::string words_of_path(OptionFault const& fault, Face face) {
    return face == Face::program ? fault.detail : "'" + fault.given + "': " + fault.detail;
}

}  // namespace

std::string_view name_of(OptionCode code) {
    return kCodeNames.at(static_cast<std::size_t>(code));
}

bool is_of_text(OptionCode code) {
    return code <= OptionCode::zero;
}

std::string words_of(OptionFault const& fault, Face face) {
    switch (fault.code) {
        case OptionCode::not_a_whole_number:
            return fmt::format("'{}' is not a whole number", fault.given);
        case OptionCode::not_a_toggle:
            return fmt::format("'{}' is neither true nor false", fault.given);
        case OptionCode::zero:
            return words_of_zero(fault);
        case OptionCode::negative:
            return fmt::format("{} is negative", fault.number);
        case OptionCode::below_least:
            return words_of_least(fault);
        case OptionCode::unknown_choice:
            return words_of_choice(fault);
        case OptionCode::needs_other:
            return with_option_names("it needs `" + fault.detail + "`, which is not set", face);
        case OptionCode::excludes_other:
            return words_of_exclusion(fault, face);
        case OptionCode::makes_again:
            return with_option_names(
                quoted(fault.given, face) +
                    "works by making saved tensors again, and `recompute` is 'off'; leave one "
                    "of the two out",
                face
            );
        case OptionCode::not_writable:
        case OptionCode::not_readable:
            return words_of_path(fault, face);
        case OptionCode::loses_precision:
            return words_of_loss(fault, face);
        case OptionCode::not_deterministic:
            return "lossy codecs cannot be used with deterministic algorithms, which torch is set "
                   "to use";
        case OptionCode::has_no_effect:
            return (fault.given.empty() ? "" : quoted(fault.given, face) + "has no effect: ") +
                   fault.detail;
        case OptionCode::no_kernels:
            return quoted(fault.given, face) + "cannot be used: there are no kernels for " +
                   fault.detail;
        case OptionCode::no_tier:
            return with_option_names(
                "encoded tensors need a place to move to: give an NVMe folder (`nvme`) or "
                "`host_budget_bytes`",
                face
            );
        case OptionCode::below_owned:
            return fmt::format(
                "parameters, gradients, buffers and optimizer state take {}, and the budget is {}; "
                "give more, as these stay on the device",
                format_exact_size(fault.number),
                format_exact_size(fault.bound)
            );
        case OptionCode::above_free:
            return fmt::format(
                "{} are asked for, but '{}' has {} free; ask for less, or leave it out for {}",
                format_exact_size(fault.number),
                fault.given,
                format_exact_size(fault.bound),
                default_words(option_of(fault), face)
            );
        case OptionCode::not_a_size:
        case OptionCode::failed:
            break;
    }
    return with_option_names(fault.detail, face);
}

}  // namespace spillway
