// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the options of a session are called where a user gives them. Words about options name them
// as SessionOptions does, in backticks, and are rendered where they are shown.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace spillway {

/// Who shows words to the user.
enum class Face : std::uint8_t {
    cpp,      ///< a C++ program: members of SessionOptions
    python,   ///< arguments of spillway.session
    program,  ///< flags of `spillway train`
};

/// `cpp_name` itself where it is no option.
[[nodiscard]] std::string_view option_name(std::string_view cpp_name, Face face);

/// `words` with every "`member`" as `face` writes it: "`lossy`" is `lossy = true`, `lossy=True` or
/// `--lossy`, "`nvme`" is `nvme`, `nvme=` or `--nvme`.
[[nodiscard]] std::string with_option_names(std::string_view words, Face face);

/// `words` with every "`member`" as `write` has it, which is given the member's name alone.
[[nodiscard]] std::string with_option_names(
    std::string_view words, std::function<std::string(std::string_view)> const& write
);

}  // namespace spillway
