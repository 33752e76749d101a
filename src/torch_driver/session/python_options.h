// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What crosses to Python as text: options that it gives, and refusals that it makes errors of.
#pragma once

#include "spillway/option.h"

#include <cstdint>
#include <string>

namespace spillway {

/// Throws  std::exception that Python sees as a ValueError: one line of JSON, of which it makes an
///         error of its own
void refuse(OptionFault const& fault);
/// The same, code "state".
void check_state(bool holds, char const* otherwise);

/// `text`: a JSON object of options by their names in Python, null: not given; `device` and `rank`,
/// which are no arguments there, by their own. A share of a GPU's memory is `device_bytes`'.
///
/// Throws  as refuse
[[nodiscard]] SessionOptions read_options(std::string const& text, std::int64_t device_bytes);

}  // namespace spillway
