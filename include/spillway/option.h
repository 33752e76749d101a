// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The options of a session: SessionOptions, the table that declares each of them once, and what
// reads that table: text as a user types it, checks, help.
#pragma once

#include "base/option.h"
#include "base/option_table.h"
#include "base/result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway {

/// Why an option value was rejected.
struct OptionFault {
    enum class Code : std::uint8_t {
        unreadable,  ///< its text is none of the option's type
        zero,        ///< bytes or a rate of nothing, which the option does not take
        refused,     ///< it can be read and cannot be
    };
    Code code = Code::refused;
    std::string option;  ///< its name in SessionOptions
    std::string why;     ///< names options in backticks, for with_option_names

    bool operator==(OptionFault const&) const = default;
};

/// The names that it takes; empty: it is no choice.
[[nodiscard]] std::vector<std::string_view> choices_of(Option const& option);

enum class Markup : std::uint8_t { plain, markdown };

/// Its help with what it can be chosen from, as `face` names options.
[[nodiscard]] std::string describe(Option const& option, Face face, Markup markup = Markup::plain);

/// Its default as default_words says, with the options in it as `face` names them.
[[nodiscard]] std::string describe_default(
    Option const& option, Face face, Markup markup = Markup::plain
);

/// Reads `text`, as a user types it, into the option's member: "16GiB", "80%", "true", "keep". A
/// share of device memory is `device_bytes`' (0: shares are refused), one of free space
/// `options.nvme`'s, which has to be read first.
[[nodiscard]] std::optional<OptionFault> read_option(
    Option const& option, std::string_view text, std::int64_t device_bytes, SessionOptions& options
);

/// Bounds, choices, options that mean nothing without another, and files that cannot be written.
[[nodiscard]] std::optional<OptionFault> check_options(SessionOptions const& options);

/// Why no file can be written at `path` when its time comes; empty: nothing is against it now.
[[nodiscard]] std::string why_not_written(std::string const& path);

/// Why saved tensors cannot move to `folder`, "is not a folder", with options in backticks; empty:
/// nothing is against it now. The folder is not touched.
[[nodiscard]] std::string why_no_tier_in(std::string const& folder, bool allow_tmpfs);

/// The same with the paths of its files absolute: the program may go to another folder before one
/// of them is written.
[[nodiscard]] SessionOptions with_absolute_files(SessionOptions options);

/// SessionOptions::codecs of pairs of a class and its codec, {"attention", "affine8:group=64"}.
///
/// Fails   Errc::bad_argument that names the class
[[nodiscard]] Result<std::string> codecs_of_classes(
    std::span<std::pair<std::string, std::string> const> classes
);

}  // namespace spillway
