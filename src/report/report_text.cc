// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/report_text.h"

#include "base/json_view.h"
#include "report/report_rows.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string label_of(ReportRow const& row) {
    return std::string(2 * static_cast<std::size_t>(row.depth), ' ') + row.label;
}

OrderedJson json_of(PeakSplit const& split) {
    return {
        {"parameters", split.parameter_bytes},
        {"buffers", split.buffer_bytes},
        {"gradients", split.gradient_bytes},
        {"optimizer_state", split.optimizer_state_bytes},
        {"saved", split.saved_bytes()},
        {"read_ahead", split.read_ahead_bytes},
        {"other", split.other_bytes}};
}

OrderedJson json_of(std::vector<ModuleBytes> const& modules) {
    OrderedJson rows = OrderedJson::array();
    for (ModuleBytes const& row : modules) {
        rows.push_back({{"module", row.module}, {"bytes", row.size_bytes}});
    }
    return rows;
}

OrderedJson by_phase(Report const& report) {
    OrderedJson json;
    for (std::size_t i = 0; i < kPhases; ++i) {
        json[std::string(name_of(static_cast<Phase>(i)))] = report.device_peak_by_phase[i];
    }
    return json;
}

OrderedJson by_cause(Report const& report) {
    OrderedJson json;
    for (std::size_t i = 0; i < kStallCauses; ++i) {
        json[std::string(name_of(static_cast<StallCause>(i)))] = report.stall_by_cause_ns[i];
    }
    return json;
}

OrderedJson codecs_of(Report const& report) {
    OrderedJson rows = OrderedJson::array();
    for (CodecReport const& row : report.codecs) {
        rows.push_back(
            {{"tensor_class", row.tensor_class},
             {"codec", row.codec},
             {"bits", row.bits},
             {"values", row.values},
             {"raw_bytes", row.raw_bytes},
             {"encoded_bytes", row.encoded_bytes},
             {"encode_ns", row.encode_ns},
             {"decoded_bytes", row.decoded_bytes},
             {"decode_ns", row.decode_ns},
             {"error_squares", row.error_squares},
             {"value_squares", row.value_squares},
             {"relative_l2_error", row.relative_l2_error()},
             {"went_raw", row.went_raw}}
        );
    }
    return rows;
}

OrderedJson json_of(PlanReport const& plan) {
    return {
        {"policy", plan.policy},
        {"refusal", plan.refusal},
        {"foretold_step_ns", plan.foretold_step_ns},
        {"foretold_peak_bytes", plan.foretold_peak_bytes},
        {"recorded_step_ns", plan.recorded_step_ns},
        {"steps", plan.steps},
        {"step_ns", plan.step_ns},
        {"feedback_rounds", plan.feedback_rounds},
        {"peak_bytes", plan.peak_bytes}};
}

}  // namespace

std::string to_table(Report const& report) {
    std::string table;
    std::string_view group;
    std::vector<ReportRow> const rows = rows_of(report);
    std::size_t width = 18;
    std::size_t group_width = 8;
    for (ReportRow const& row : rows) {
        group_width = std::max(group_width, row.group.size());
        width = std::max(width, label_of(row).size());
    }
    for (ReportRow const& row : rows) {
        std::string line = fmt::format(
            "{:<{}} {:<{}} {:>10}  {}",
            row.group == group ? "" : row.group,
            group_width,
            label_of(row),
            width,
            row.value,
            row.note
        );
        group = row.group;
        line.erase(line.find_last_not_of(' ') + 1);
        table += line + "\n";
    }
    return table;
}

std::string to_json(Report const& report) {
    OrderedJson const json{
        {"format", "spillway.report"},
        {"version", 8},
        {"device_limit_bytes", report.device_limit_bytes},
        {"device_bytes", report.device_bytes},
        {"device_peak_bytes", report.device_peak_bytes},
        {"device_peak_by_phase", by_phase(report)},
        {"device_peak_split", json_of(report.device_peak_split)},
        {"device_peak_saved_by_module", json_of(report.device_peak_split.saved)},
        {"device_needed_bytes", report.device_needed_bytes},
        {"device_resident_bytes", report.device_resident_bytes},
        {"device_resident_peak_bytes", report.device_resident_peak_bytes},
        {"device_discarded_bytes", report.device_discarded_bytes},
        {"device_other_bytes", report.device_other_bytes},
        {"ledger_peak_bytes", report.ledger_peak_bytes},
        {"saved_tensors", report.saved_tensors},
        {"saved_values", report.saved_values},
        {"saved_bytes", report.saved_bytes},
        {"passed_tensors", report.passed_tensors},
        {"stored_bytes", report.stored_bytes},
        {"loaded_bytes", report.loaded_bytes},
        {"freed_bytes", report.freed_bytes},
        {"kept_by_others_bytes", report.kept_by_others_bytes},
        {"recomputed_values", report.recomputed_values},
        {"recomputed_bytes", report.recomputed_bytes},
        {"recomputed_operators", report.recomputed_operators},
        {"recompute_ns", report.recompute_ns},
        {"refused_recipes", report.refused_recipes},
        {"recompute_away_peak_bytes", report.recompute_away_peak_bytes},
        {"steps_ns", report.steps_ns},
        {"stall_store_ns", report.stall_store_ns},
        {"stall_load_ns", report.stall_load_ns},
        {"stall_by_cause_ns", by_cause(report)},
        {"store_busy_ns", report.store_busy_ns},
        {"load_busy_ns", report.load_busy_ns},
        {"copy_out_bytes", report.copy_out_bytes},
        {"copy_out_ns", report.copy_out_ns},
        {"copy_in_bytes", report.copy_in_bytes},
        {"copy_in_ns", report.copy_in_ns},
        {"host_peak_bytes", report.host_peak_bytes},
        {"host_requested_bytes", report.host_requested_bytes},
        {"host_locked_bytes", report.host_locked_bytes},
        {"nvme_peak_bytes", report.nvme_peak_bytes},
        {"nvme_moved_bytes", report.nvme_moved_bytes},
        {"nvme_stored_bytes", report.nvme_stored_bytes},
        {"nvme_store_busy_ns", report.nvme_store_busy_ns},
        {"nvme_load_busy_ns", report.nvme_load_busy_ns},
        {"staging_bytes", report.staging_bytes},
        {"raw_for_two_savers", report.raw_for_two_savers},
        {"codecs", codecs_of(report)},
        {"plan", json_of(report.plan)}};
    return json_lines(json, 1);
}

}  // namespace spillway
