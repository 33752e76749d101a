// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A report for people, and for programs. Rates are computed here; a report holds none.
#pragma once

#include "report/report.h"

#include <string>

namespace spillway {

/// Lines that end in a newline, in columns; what the session had no part in has none.
[[nodiscard]] std::string to_table(Report const& report);

/// The same rows as an HTML `<table>` for a notebook: all text escaped, no script, no colours.
[[nodiscard]] std::string to_html(Report const& report);

/// docs/formats/report.md.
[[nodiscard]] std::string to_json(Report const& report);

}  // namespace spillway
