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

/// Why an option value is refused. Which of OptionFault's members a code uses stands beside it.
enum class OptionCode : std::uint8_t {
    // Of the text (is_of_text):
    not_a_size,          ///< `given` cannot be read as bytes or a rate; `detail`: why
    not_a_whole_number,  ///< `given` cannot be read as one
    not_a_toggle,        ///< `given` is neither true nor false
    zero,                ///< `given` is no bytes, which the option does not take
    // Of the value:
    negative,        ///< `number` is below 0
    below_least,     ///< `number` is less than `bound`
    unknown_choice,  ///< `given` is not one of choices_of
    needs_other,     ///< it means nothing without the option `detail`
    not_writable,    ///< no file can be written at `given`; `detail`: why
    not_readable,    ///< the file `given` is not what it has to be; `detail`: why
    excludes_other,  ///< it stands in place of another; `detail`: "option=value"
    makes_again,     ///< `given` works by making tensors again, and `recompute` is "off"
    // When a session opens:
    loses_precision,    ///< `lossy` is off; `given`: codecs or policy; `detail`: "class=codec"
    not_deterministic,  ///< torch is set to deterministic algorithms
    has_no_effect,      ///< `given`, or empty: the option itself; `detail`: why
    no_kernels,         ///< of `given`; `detail`: "codec on device"
    no_tier,            ///< the tensors that `given` encodes have nowhere to move
    below_owned,        ///< `number` bytes that never move leave nothing of the budget, `bound`
    above_free,         ///< `number` bytes are asked for, `bound` are free in the folder `given`
    failed,             ///< `detail` says why; `number` and `bound` where bytes were compared
};

/// "below_least".
[[nodiscard]] std::string_view name_of(OptionCode code);

/// True: the text cannot be parsed, or is zero bytes. False: the parsed value is not allowed.
[[nodiscard]] bool is_of_text(OptionCode code);

/// Why an option is refused, for programs; words_of is for people.
struct OptionFault {
    OptionCode code = OptionCode::failed;
    std::string option;       ///< its name in SessionOptions
    std::string given = {};   ///< as its user wrote it
    std::int64_t number = 0;  ///< the value, where it is one
    std::int64_t bound = 0;   ///< what it was compared with
    std::string detail = {};  ///< with `failed`, options in backticks are named by words_of

    bool operator==(OptionFault const&) const = default;
};

/// One line without an end and without the option's name, as `face` names options.
[[nodiscard]] std::string words_of(OptionFault const& fault, Face face);

/// The names that it takes; empty: it is no choice.
[[nodiscard]] std::vector<std::string_view> choices_of(Option const& option);

enum class Markup : std::uint8_t { plain, markdown };

/// Its help with what it can be chosen from, as `face` names options.
[[nodiscard]] std::string describe(Option const& option, Face face, Markup markup = Markup::plain);

/// Its default_words, with the options in it as `face` names them.
[[nodiscard]] std::string describe_default(
    Option const& option, Face face, Markup markup = Markup::plain
);

/// Reads `text`, as a user types it, into the option's member: "16GiB", "80%", "true", "keep". A
/// share of device memory is `device_bytes`' (0: shares are refused), one of free space
/// `options.nvme`'s, which has to be read first: without it the share is refused.
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
