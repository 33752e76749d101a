// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Machines by name, as their makers' data sheets have them: what nobody has at hand can be
// foretold, too. Each says in `Machine::sources` where its figures are from.
#pragma once

#include "base/result.h"
#include "machine/machine.h"

#include <string>
#include <string_view>
#include <vector>

namespace spillway {

/// "a100_40" and so on, in alphabetical order.
[[nodiscard]] std::vector<std::string> data_sheet_names();

/// "-" and "_" in the name are alike.
///
/// Fails   Errc::bad_argument naming those that there are
[[nodiscard]] Result<Machine> find_data_sheet(std::string_view name);

}  // namespace spillway
