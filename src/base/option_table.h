// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The options of a session, each declared once: its name at every face, what it takes, what it is
// when it is not given, and one line of help. `spillway train --help`, the arguments of
// spillway.session, the check of SessionOptions and the tables in docs/ read it. A new option is a
// member of SessionOptions and an entry in option_table.cc.
#pragma once

#include "base/option.h"
#include "base/session_options.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace spillway {

enum class OptionType : std::uint8_t {
    bytes,    ///< "600MiB"; or "80%", where `Option::share_of` specifies of what
    rate,     ///< bytes a second: "2GB"
    integer,  ///< from `Option::least` on
    toggle,
    choice,  ///< one of `Option::choices`
    policy,  ///< one of the catalogue's (policy/catalog.h)
    plan,    ///< a file that holds one (docs/formats/plan.md)
    codecs,  ///< codecs by class of tensors (session/codec_rule.h)
    folder,
    file,
    word,  ///< read where it is used
};

/// "bytes".
[[nodiscard]] std::string_view name_of(OptionType type);

/// What a share of bytes is a share of.
enum class ShareOf : std::uint8_t { nothing, device_memory, host_memory, free_space };

/// The member of SessionOptions; its default is the option's.
using OptionMember = std::
    variant<std::int64_t SessionOptions::*, bool SessionOptions::*, std::string SessionOptions::*>;

/// One option. In words that are shown, other options stand in backticks, by their C++ names.
struct Option {
    std::string_view name;    ///< the member of SessionOptions
    std::string_view python;  ///< the argument of spillway.session; empty: none
    std::string_view flag;    ///< of `spillway train`; empty: none
    OptionType type;
    OptionMember member;
    std::string_view help;              ///< a clause
    std::string_view python_help = {};  ///< in Python; empty: as `help`
    /// What applies when it is not given; empty: the member's default.
    std::string_view otherwise = {};
    std::string_view python_otherwise = {};  ///< in Python; empty: as `otherwise`
    std::string_view group = {};             ///< where --help shows its flag

    /// The smallest number that can be given; the member's default may be smaller.
    std::int64_t least = 0;
    std::string_view least_words = {};  ///< "4 KiB, the smallest block"
    ShareOf share_of = ShareOf::nothing;
    std::span<std::string_view const> choices = {};
    std::string_view needs = {};       ///< the option without which it means nothing
    std::string_view flag_needs = {};  ///< the same, where there may be no session
};

/// In the order in which people read them.
[[nodiscard]] std::span<Option const> option_table();

/// By its name at `face`, or by its C++ name where it has none there; null: there is no such
/// option.
[[nodiscard]] Option const* find_option(std::string_view name, Face face = Face::cpp);

/// Whether `options` have another value than the default.
[[nodiscard]] bool is_given(Option const& option, SessionOptions const& options);

/// What holds when it is not given, as `face` writes it: "off", "False", "nine tenths of the free
/// space".
[[nodiscard]] std::string default_words(Option const& option, Face face);

}  // namespace spillway
