// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/report_text.h"

#include "base/json_view.h"
#include "base/units.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// Rows under the name of their group, which stands in the first.
class Table {
  public:
    void begin(std::string group) { group_ = std::move(group); }

    void row(std::string_view label, std::string_view value, std::string_view note = {}) {
        std::string line =
            fmt::format("{:<8} {:<18} {:>10}  {}", std::exchange(group_, {}), label, value, note);
        line.erase(line.find_last_not_of(' ') + 1);
        text_ += line + "\n";
    }
    void size(std::string_view label, std::int64_t size_bytes, std::string_view note = {}) {
        row(label, format_size(size_bytes), note);
    }
    void size_if_any(std::string_view label, std::int64_t size_bytes, std::string_view note = {}) {
        if (size_bytes > 0) {
            size(label, size_bytes, note);
        }
    }
    void moved(std::string_view label, std::int64_t size_bytes, std::int64_t took_ns) {
        size_if_any(label, size_bytes, rate(size_bytes, took_ns));
    }
    /// A byte a nanosecond is a GB a second. Empty where nothing took time.
    [[nodiscard]] static std::string rate(std::int64_t size_bytes, std::int64_t took_ns) {
        double const gb_per_s = static_cast<double>(size_bytes) / static_cast<double>(took_ns);
        return took_ns > 0 ? fmt::format("{:.2f} GB/s", gb_per_s) : "";
    }
    void seconds(std::string_view label, std::int64_t time_ns) {
        row(label, fmt::format("{:.3f} s", static_cast<double>(time_ns) * 1e-9));
    }

    [[nodiscard]] std::string take() { return std::move(text_); }

  private:
    std::string group_;
    std::string text_;
};

void add_device(Table& table, Report const& report) {
    std::int64_t const limit = report.device_limit_bytes;
    table.begin("device");
    table.size(
        "allocated at most",
        report.device_peak_bytes,
        limit > 0 ? "of " + format_size(limit) : "without a cap"
    );
    for (std::size_t i = 0; i < kPhases; ++i) {
        std::string const label = "  in " + std::string(name_of(static_cast<Phase>(i)));
        table.size_if_any(label, report.device_peak_by_phase[i]);
    }
    table.size_if_any(
        "needed at least", report.device_needed_bytes, "the smallest budget for this"
    );
    table.size_if_any("reserved at most", report.device_resident_peak_bytes);
    table.size_if_any("context and others", report.device_other_bytes, "not in the cap");
}

void add_saved(Table& table, Report const& report) {
    table.begin("saved");
    table.size(
        "packed",
        report.saved_bytes,
        fmt::format(
            "{} values; of {} tensors {} passed through",
            report.saved_values,
            report.saved_tensors,
            report.passed_tensors
        )
    );
    table.size("freed", report.freed_bytes);
    table.size_if_any("pinned by others", report.kept_by_others_bytes, "chosen, not freed");
}

void add_moved(Table& table, Report const& report) {
    std::int64_t const nvme_loaded_bytes = report.nvme_moved_bytes - report.nvme_stored_bytes;
    table.begin("moved");
    if (report.stored_bytes + report.loaded_bytes == 0) {
        table.size("nothing", 0);
        return;
    }
    table.moved("copied out", report.copy_out_bytes, report.copy_out_ns);
    table.moved("copied in", report.copy_in_bytes, report.copy_in_ns);
    table.moved(
        "stored on host",
        report.stored_bytes - report.nvme_stored_bytes,
        report.store_busy_ns - report.nvme_store_busy_ns
    );
    table.moved(
        "loaded from host",
        report.loaded_bytes - nvme_loaded_bytes,
        report.load_busy_ns - report.nvme_load_busy_ns
    );
    table.moved("stored on NVMe", report.nvme_stored_bytes, report.nvme_store_busy_ns);
    table.moved("loaded from NVMe", nvme_loaded_bytes, report.nvme_load_busy_ns);
}

/// "affine4:group=128, 3 values, 6.0 MiB to 900.0 KiB, encoded at 3.10 GB/s, relative error 0.05".
std::string note_of(CodecReport const& row) {
    if (row.values == 0) {
        return fmt::format("{}, none encoded, {} went raw", row.codec, row.went_raw);
    }
    std::string note = fmt::format(
        "{}, {} values, {} to {}",
        row.codec,
        row.values,
        format_size(row.raw_bytes),
        format_size(row.encoded_bytes)
    );
    auto const add = [&note](std::string_view what, std::string const& value) {
        note += value.empty() ? "" : fmt::format(", {} {}", what, value);
    };
    add("encoded at", Table::rate(row.raw_bytes, row.encode_ns));
    add("decoded at", Table::rate(row.decoded_bytes, row.decode_ns));
    if (row.value_squares > 0) {
        add("relative error", fmt::format("{:.2g}", row.relative_l2_error()));
    }
    return row.went_raw > 0 ? note + fmt::format(", {} went raw", row.went_raw) : note;
}

void add_codecs(Table& table, Report const& report) {
    table.begin("codecs");
    for (CodecReport const& row : report.codecs) {
        std::string const bits = row.values > 0 ? fmt::format("{:.2f} bits", row.bits) : "raw";
        table.row(row.tensor_class, bits, note_of(row));
    }
    if (report.raw_for_two_savers > 0) {
        table.row(
            "left raw",
            std::to_string(report.raw_for_two_savers),
            "values that two savers read for different ends"
        );
    }
}

void add_stalls(Table& table, Report const& report) {
    constexpr std::array<std::string_view, kStallCauses> kLabels{
        "copy out", "copy in", "NVMe", "admission"};
    table.begin("stalls");
    std::int64_t sum_ns = 0;
    for (std::size_t i = 0; i < kStallCauses; ++i) {
        if (report.stall_by_cause_ns[i] > 0) {
            table.seconds(kLabels[i], report.stall_by_cause_ns[i]);
            sum_ns += report.stall_by_cause_ns[i];
        }
    }
    if (sum_ns == 0) {
        table.seconds("none", 0);
    }
}

void add_places(Table& table, Report const& report) {
    table.begin("places");
    std::string const locked =
        report.host_locked_bytes > 0 ? format_size(report.host_locked_bytes) + " locked" : "";
    table.size_if_any("host at most", report.host_peak_bytes);
    table.size_if_any("host requested", report.host_requested_bytes, locked);
    table.size_if_any("NVMe at most", report.nvme_peak_bytes);
    table.size_if_any("staging", report.staging_bytes);
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

}  // namespace

std::string to_table(Report const& report) {
    Table table;
    add_device(table, report);
    add_saved(table, report);
    add_moved(table, report);
    add_codecs(table, report);
    add_stalls(table, report);
    add_places(table, report);
    return table.take();
}

std::string to_json(Report const& report) {
    OrderedJson const json{
        {"format", "spillway.report"},
        {"version", 2},
        {"device_limit_bytes", report.device_limit_bytes},
        {"device_bytes", report.device_bytes},
        {"device_peak_bytes", report.device_peak_bytes},
        {"device_peak_by_phase", by_phase(report)},
        {"device_needed_bytes", report.device_needed_bytes},
        {"device_resident_bytes", report.device_resident_bytes},
        {"device_resident_peak_bytes", report.device_resident_peak_bytes},
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
        {"codecs", codecs_of(report)}};
    return json_lines(json, 1);
}

}  // namespace spillway
