// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/report_rows.h"
#include "report/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace spillway {

namespace {

std::string escaped(std::string_view text) {
    std::string safe;
    for (char const c : text) {
        switch (c) {
            case '&':
                safe += "&amp;";
                break;
            case '<':
                safe += "&lt;";
                break;
            case '>':
                safe += "&gt;";
                break;
            case '"':
                safe += "&quot;";
                break;
            case '\'':
                safe += "&#39;";
                break;
            default:
                safe += c;
        }
    }
    return safe;
}

std::string cell(std::string_view style, std::string_view text) {
    return fmt::format("<td style=\"{}\">{}</td>", style, escaped(text));
}

std::string group_cell(ReportRow const& first, std::vector<ReportRow> const& rows) {
    auto const count = std::count_if(rows.begin(), rows.end(), [&first](ReportRow const& row) {
        return row.group == first.group;
    });
    return fmt::format(
        "<th scope=\"rowgroup\" rowspan=\"{}\" "
        "style=\"text-align:left;vertical-align:top\">{}</th>",
        count,
        escaped(first.group)
    );
}

}  // namespace

/// No colour of its own: text and background are the notebook's, so that it is legible in a light
/// and in a dark one; lines are half transparent.
std::string to_html(Report const& report) {
    std::vector<ReportRow> const rows = rows_of(report);
    std::string html = "<table class=\"spillway-report\" style=\"border-collapse:collapse\">\n";
    std::string_view group;
    for (ReportRow const& row : rows) {
        bool const is_first = row.group != group;
        group = row.group;
        html += is_first ? "<tr style=\"border-top:1px solid rgba(128,128,128,0.5)\">" +
                               group_cell(row, rows)
                         : std::string("<tr>");
        html +=
            cell(row.depth > 0 ? "text-align:left;padding-left:2em" : "text-align:left", row.label);
        html += cell("text-align:right;white-space:nowrap", row.value);
        html += cell("text-align:left", row.note) + "</tr>\n";
    }
    return html + "</table>\n";
}

}  // namespace spillway
