// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A report as rows for people, before they become a table of text or of HTML.
#pragma once

#include "report/report.h"

#include <string>
#include <vector>

namespace spillway {

struct ReportRow {
    std::string group;  ///< "device"; rows of a group follow each other
    std::string label;
    std::string value;  ///< with its unit
    std::string note;   ///< may be empty
    int depth = 0;      ///< 1: a part of the row of depth 0 before it
};

/// What the session had no part in has no row.
[[nodiscard]] std::vector<ReportRow> rows_of(Report const& report);

}  // namespace spillway
