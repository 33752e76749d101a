// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/units.h"
#include "codec/codec.h"
#include "policy/catalog.h"
#include "session/codec_rule.h"
#include "session/given_plan.h"
#include "spillway/limits.h"
#include "spillway/option.h"
#include "tier/block_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace spillway {

namespace fs = std::filesystem;

namespace {

OptionFault of_text(
    Option const& option, OptionCode code, std::string_view given, std::string detail = {}
) {
    return {
        .code = code,
        .option = std::string(option.name),
        .given = std::string(given),
        .detail = std::move(detail)};
}

/// `words` with every "`member`" as `face` names that option.
std::string named(std::string_view words, Face face, Markup markup) {
    std::string_view const mark = markup == Markup::markdown ? "`" : "";
    return with_option_names(words, [=](std::string_view name) {
        return fmt::format("{0}{1}{0}", mark, option_name(name, face));
    });
}

/// "online (chooses at run time); with --lossy: ...; others: docs/systems.md"
std::string describe_policies(Face face, Markup markup) {
    std::string_view const mark = markup == Markup::markdown ? "`" : "";
    std::string all;
    for (Policy const& policy : policies()) {
        if (!policy.plans_in_session() && policy.eviction == EvictionRule::next_use) {
            all += policy.is_lossy ? "with " + named("`lossy`", face, markup) + ": " : "";
            all += fmt::format("{0}{1}{0} ({2}); ", mark, policy.name, policy.what);
        }
    }
    return all + "others: docs/systems.md";
}

Result<std::int64_t> whole_number(std::string_view text) {
    std::int64_t number = 0;
    auto const [end, failure] = std::from_chars(text.begin(), text.end(), number);
    if (failure != std::errc{} || end != text.end()) {
        return Error{Errc::bad_argument, {}, {}};
    }
    return number;
}

std::int64_t whole_of(Option const& option, std::int64_t device_bytes, std::string const& nvme) {
    switch (option.share_of) {
        case ShareOf::nothing:
            break;
        case ShareOf::device_memory:
            return device_bytes;
        case ShareOf::host_memory:
            return memory_limit_bytes();
        case ShareOf::free_space:
            return std::max<std::int64_t>(free_bytes_of(nvme), 1);  // 0: no shares here
    }
    return 0;
}

std::optional<OptionFault> check_number(Option const& option, std::int64_t number) {
    if (number >= std::max<std::int64_t>(option.least, 0)) {
        return std::nullopt;
    }
    return OptionFault{
        .code = number < 0 ? OptionCode::negative : OptionCode::below_least,
        .option = std::string(option.name),
        .number = number,
        .bound = option.least};
}

std::optional<OptionFault> check_choice(Option const& option, std::string const& text) {
    std::vector<std::string_view> const choices = choices_of(option);
    bool const is_policy = option.type == OptionType::policy;  // parameters may follow the name
    std::string const name = is_policy ? text.substr(0, text.find(':')) : text;
    if (choices.empty()) {
        return std::nullopt;
    }
    if (std::find(choices.begin(), choices.end(), name) == choices.end()) {
        return of_text(option, OptionCode::unknown_choice, text);
    }
    Result<PolicyChoice> const choice =
        is_policy ? parse_policy_choice(text) : Result<PolicyChoice>(PolicyChoice());
    if (!choice.ok()) {
        return of_text(option, OptionCode::failed, text, choice.error().what);
    }
    return std::nullopt;
}

std::optional<OptionFault> check_file(Option const& option, std::string const& path) {
    std::string why = why_not_written(path);
    if (why.empty()) {
        return std::nullopt;
    }
    return of_text(option, OptionCode::not_writable, path, std::move(why));
}

std::optional<OptionFault> check_plan(SessionOptions const& options) {
    std::optional<Plan> plan;
    return read_given_plan(options, plan);
}

/// What a plan does not name is left to `online`, and to no other policy.
std::optional<OptionFault> check_plan_alone(SessionOptions const& options) {
    if (options.plan.empty() || options.policy == SessionOptions().policy) {
        return std::nullopt;
    }
    return OptionFault{
        .code = OptionCode::excludes_other,
        .option = "plan",
        .given = options.plan,
        .detail = "policy=" + options.policy};
}

/// Where nothing may be made again, a policy that does nothing else is of no use.
std::optional<OptionFault> check_policy_works(SessionOptions const& options) {
    Policy const* const policy = find_policy(options.policy);
    bool const only_makes_again = policy != nullptr && policy->recomputes && !policy->moves;
    if (options.recompute != "off" || !only_makes_again) {
        return std::nullopt;
    }
    return OptionFault{
        .code = OptionCode::makes_again, .option = "policy", .given = options.policy};
}

std::optional<OptionFault> check_value(Option const& option, SessionOptions const& options) {
    if (auto const* const number = std::get_if<std::int64_t SessionOptions::*>(&option.member)) {
        return check_number(option, options.*(*number));
    }
    if (auto const* const text = std::get_if<std::string SessionOptions::*>(&option.member)) {
        return option.type == OptionType::file   ? check_file(option, options.*(*text))
               : option.type == OptionType::plan ? check_plan(options)
                                                 : check_choice(option, options.*(*text));
    }
    return std::nullopt;
}

}  // namespace

std::vector<std::string_view> choices_of(Option const& option) {
    std::vector<std::string_view> names(option.choices.begin(), option.choices.end());
    if (option.type == OptionType::policy) {
        for (Policy const& policy : policies()) {
            names.push_back(policy.name);
        }
    }
    return names;
}

std::string describe(Option const& option, Face face, Markup markup) {
    bool const is_python = face == Face::python && !option.python_help.empty();
    std::string help = named(is_python ? option.python_help : option.help, face, markup);
    if (option.type == OptionType::policy) {
        return help + ": " + describe_policies(face, markup);
    }
    return help;
}

std::string describe_default(Option const& option, Face face, Markup markup) {
    return named(default_words(option, face), face, markup);
}

std::optional<OptionFault> read_option(
    Option const& option, std::string_view text, std::int64_t device_bytes, SessionOptions& options
) {
    if (auto const* const toggle = std::get_if<bool SessionOptions::*>(&option.member)) {
        if (text != "true" && text != "false") {
            return of_text(option, OptionCode::not_a_toggle, text);
        }
        options.*(*toggle) = text == "true";
        return std::nullopt;
    }
    if (auto const* const word = std::get_if<std::string SessionOptions::*>(&option.member)) {
        options.*(*word) = text;
        return std::nullopt;
    }
    if (option.share_of == ShareOf::free_space && options.nvme.empty() && text.ends_with('%')) {
        return of_text(option, OptionCode::needs_other, text, std::string(option.needs));
    }
    bool const is_size = option.type != OptionType::integer;
    Result<std::int64_t> const number =
        is_size ? parse_size(text, whole_of(option, device_bytes, options.nvme))
                : whole_number(text);
    if (!number.ok()) {
        OptionCode const code = is_size ? OptionCode::not_a_size : OptionCode::not_a_whole_number;
        return of_text(option, code, text, number.error().message());
    }
    if (is_size && *number == 0 && option.least > 0) {
        return of_text(option, OptionCode::zero, text);
    }
    options.*std::get<std::int64_t SessionOptions::*>(option.member) = *number;
    return std::nullopt;
}

std::optional<OptionFault> check_options(SessionOptions const& options) {
    for (Option const& option : option_table()) {
        if (!is_given(option, options)) {
            continue;
        }
        if (std::optional<OptionFault> wrong = check_value(option, options)) {
            return wrong;
        }
        Option const* const needed = find_option(option.needs);
        if (needed != nullptr && !is_given(*needed, options)) {
            return of_text(option, OptionCode::needs_other, {}, std::string(needed->name));
        }
    }
    std::optional<OptionFault> const wrong = check_plan_alone(options);
    return wrong ? wrong : check_policy_works(options);
}

std::string why_not_written(std::string const& path) {
    std::error_code failure;
    fs::file_status const status = fs::status(path, failure);
    if (fs::is_directory(status)) {
        return "a folder, not a file";
    }
    if (fs::exists(status)) {
        return ::access(path.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
    }
    fs::path const parent = fs::path(path).parent_path();
    std::string const folder = parent.empty() ? "." : parent.string();
    if (!fs::is_directory(folder, failure)) {
        return "there is no folder '" + folder + "' to put it in";
    }
    bool const is_writable = ::access(folder.c_str(), W_OK | X_OK) == 0;
    return is_writable ? "" : "folder '" + folder + "': " + std::strerror(errno);
}

std::string why_no_tier_in(std::string const& folder, bool allow_tmpfs) {
    return why_no_block_file_in(folder, allow_tmpfs);
}

SessionOptions with_absolute_files(SessionOptions options) {
    for (Option const& option : option_table()) {
        if (option.type == OptionType::file && is_given(option, options)) {
            std::string& path = options.*std::get<std::string SessionOptions::*>(option.member);
            std::error_code failure;
            fs::path const absolute = fs::absolute(path, failure);
            path = failure ? path : absolute.string();
        }
    }
    return options;
}

Result<std::string> codecs_of_classes(std::span<std::pair<std::string, std::string> const> classes
) {
    std::string all;
    for (auto const& [name, codec] : classes) {
        std::string const item = name + '=' + codec;
        Result<Codec> const parsed = parse_codec(codec);
        Result<CodecTable> const laid = with_codecs({}, item);
        if (!parsed.ok() || !laid.ok()) {
            return Error{
                Errc::bad_argument,
                parsed.ok() ? laid.error().message() : parsed.error().message(),
                "'" + name + "'"};
        }
        all += all.empty() ? item : ',' + item;
    }
    return all;
}

}  // namespace spillway
