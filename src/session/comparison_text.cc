// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A comparison for people and as JSON.

#include "base/json_view.h"
#include "base/units.h"
#include "spillway/planning.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

double ratio(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// "1.03, 612.0 MiB", "lossy: 1.03, 612.0 MiB", or that it cannot run.
std::string cell_of(Foretold const& row, std::int64_t compute_ns) {
    return row.refusal.empty() ? fmt::format(
                                     "{}{:.3f}, {}",
                                     row.lossy ? "lossy: " : "",
                                     ratio(row.step_ns, compute_ns),
                                     format_size(row.peak_bytes)
                                 )
                               : "does not run";
}

/// With more digits where two would look the same.
std::vector<std::string> sizes_told_apart(std::vector<std::int64_t> const& sizes) {
    std::vector<std::string> texts;
    for (std::int64_t const size : sizes) {
        texts.push_back(format_size(size));
    }
    if (std::set(texts.begin(), texts.end()).size() < texts.size()) {
        std::ranges::transform(sizes, texts.begin(), [](std::int64_t size) {
            return fmt::format("{:.1f} MiB", static_cast<double>(size) / (1024 * 1024));
        });
    }
    return texts;
}

/// Of several policies: a line for each.
std::string by_policy(Comparison const& all) {
    std::string table = "step relative to compute alone, and peak, under a device budget of\n";
    std::size_t width = 8;
    for (Foretold const& row : all.rows) {
        width = std::max(width, row.policy.size() + 2);
    }
    table += std::string(width, ' ');
    for (std::string const& budget : sizes_told_apart(all.budgets)) {
        table += fmt::format("{:>24}", budget);
    }
    for (std::size_t i = 0; i < all.rows.size(); ++i) {
        if (i % all.budgets.size() == 0) {
            table += fmt::format("\n{:<{}}", all.rows[i].policy, width);
        }
        table += fmt::format("{:>24}", cell_of(all.rows[i], all.compute_ns));
    }
    return table + "\n";
}

/// Of one policy: a line for each budget.
std::string by_budget(Comparison const& all) {
    std::string table = fmt::format(
        "step of {} relative to compute alone, and peak, by device budget\n", all.rows[0].policy
    );
    std::vector<std::string> const sizes = sizes_told_apart(all.budgets);
    for (std::size_t i = 0; i < all.rows.size(); ++i) {
        table += fmt::format("{:>14}{:>24}\n", sizes[i], cell_of(all.rows[i], all.compute_ns));
    }
    return table;
}

/// Why policies do not run: each reason once, behind all that it holds for.
std::string refusals_of(std::vector<Foretold> const& rows, std::size_t budgets) {
    std::vector<std::pair<std::string, std::string>> policies_of_reason;
    auto const add = [&](std::string const& reason, std::string const& who) {
        auto const known = std::ranges::find(
            policies_of_reason, reason, &std::pair<std::string, std::string>::first
        );
        if (known == policies_of_reason.end()) {
            policies_of_reason.emplace_back(reason, who);
        } else {
            known->second += ", " + who;
        }
    };
    for (std::size_t begin = 0; begin < rows.size(); begin += budgets) {
        std::span const own(rows.data() + begin, budgets);
        bool const always = std::ranges::all_of(own, [&](Foretold const& row) {
            return !row.refusal.empty() && row.refusal == own.front().refusal;
        });
        if (always) {
            add(own.front().refusal, own.front().policy);
            continue;
        }
        std::string before;
        for (Foretold const& row : own) {
            if (!row.refusal.empty() && row.refusal != before) {
                add(row.refusal,
                    fmt::format("{} under {}", row.policy, format_size(row.device_bytes)));
            }
            before = row.refusal;
        }
    }
    std::string lines;
    for (auto const& [reason, policies] : policies_of_reason) {
        lines += fmt::format("{}: {}\n", policies, reason);
    }
    return lines;
}

}  // namespace

std::string Comparison::to_table() const {
    bool const is_of_one_policy = rows.size() == budgets.size() && !rows.empty();
    std::string table = fmt::format(
        "{} on {}\nnothing moved: step {:.3f} s, peak {}; the smallest budget{} is {}\n",
        trace.empty() ? "trace" : trace,
        machine.empty() ? "machine" : machine,
        static_cast<double>(compute_ns) / 1e9,
        format_size(peak_bytes),
        is_of_one_policy && rows[0].policy == floor_policy ? "" : " of " + floor_policy,
        format_size(floor_bytes)
    );
    table += tightest.empty() ? "" : tightest + "\n";
    table += is_of_one_policy ? by_budget(*this) : by_policy(*this);
    return table + refusals_of(rows, budgets.size()) + (note.empty() ? "" : "note: " + note + "\n");
}

std::string Comparison::to_json() const {
    OrderedJson json{
        {"format", "spillway.comparison"},
        {"version", 4},
        {"trace", trace},
        {"machine", machine},
        {"compute_ns", compute_ns},
        {"peak_bytes", peak_bytes},
        {"floor_bytes", floor_bytes},
        {"floor_policy", floor_policy},
        {"tightest", tightest},
        {"rows", OrderedJson::array()}};
    for (Foretold const& row : rows) {
        json["rows"].push_back(
            {{"policy", row.policy},
             {"device_bytes", row.device_bytes},
             {"refusal", row.refusal},
             {"step_ns", row.step_ns},
             {"peak_bytes", row.peak_bytes},
             {"average_bytes", row.average_bytes},
             {"average_saved_bytes", row.average_saved_bytes},
             {"stored_bytes", row.stored_bytes},
             {"loaded_bytes", row.loaded_bytes},
             {"recomputed_bytes", row.recomputed_bytes},
             {"stall_ns", row.stall_ns},
             {"bound_step_ns", row.bound_step_ns},
             {"lossy", row.lossy}}
        );
    }
    return json_lines(json, 2);
}

}  // namespace spillway
