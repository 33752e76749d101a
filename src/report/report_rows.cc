// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/report_rows.h"

#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace spillway {

namespace {

/// Steps that differ by less than this share are as fast as each other.
constexpr std::int64_t kNoiseShare = 50;

/// Gathers rows under the name of their group.
class Rows {
  public:
    void begin(std::string_view group) { group_ = group; }

    void row(std::string_view label, std::string value, std::string note = {}, int depth = 0) {
        rows_.push_back(
            {std::string(group_), std::string(label), std::move(value), std::move(note), depth}
        );
    }
    void size(
        std::string_view label, std::int64_t size_bytes, std::string note = {}, int depth = 0
    ) {
        row(label, format_size(size_bytes), std::move(note), depth);
    }
    void size_if_any(
        std::string_view label, std::int64_t size_bytes, std::string note = {}, int depth = 0
    ) {
        if (size_bytes > 0) {
            size(label, size_bytes, std::move(note), depth);
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
    void seconds(std::string_view label, std::int64_t time_ns, std::string note = {}) {
        row(label, fmt::format("{:.3f} s", static_cast<double>(time_ns) * 1e-9), std::move(note));
    }

    [[nodiscard]] std::vector<ReportRow> take() { return std::move(rows_); }

  private:
    std::string_view group_;
    std::vector<ReportRow> rows_;
};

void add_device(Rows& rows, Report const& report) {
    std::int64_t const limit = report.device_limit_bytes;
    rows.begin("device");
    rows.size(
        "allocated at most",
        report.device_peak_bytes,
        limit > 0 ? "of " + format_size(limit) : "no budget"
    );
    for (std::size_t i = 0; i < kPhases; ++i) {
        std::string const label = "in " + std::string(name_of(static_cast<Phase>(i)));
        rows.size_if_any(label, report.device_peak_by_phase[i], "", 1);
    }
    rows.size_if_any(
        "needed at least",
        report.device_needed_bytes,
        "smallest budget for these steps where saved tensors can move"
    );
    rows.size_if_any(
        "reserved at most",
        report.device_resident_peak_bytes,
        "allocated, and cached by the allocator"
    );
    rows.size_if_any("context and others", report.device_other_bytes, "not counted in the budget");
}

/// Only where the peak is split at all.
void add_peak(Rows& rows, PeakSplit const& split) {
    rows.begin("peak");
    rows.size_if_any("parameters", split.parameter_bytes);
    rows.size_if_any("buffers", split.buffer_bytes);
    rows.size_if_any("gradients", split.gradient_bytes);
    rows.size_if_any("optimizer state", split.optimizer_state_bytes);
    rows.size_if_any("saved tensors", split.saved_bytes());
    bool const has_modules =
        split.saved.size() > 1 || (split.saved.size() == 1 && !split.saved.front().module.empty());
    for (ModuleBytes const& row : split.saved) {
        if (has_modules) {
            rows.size(row.module.empty() ? "(model)" : row.module, row.size_bytes, "", 1);
        }
    }
    rows.size_if_any("read-ahead, staging", split.read_ahead_bytes);
    rows.size_if_any("temporaries, other", split.other_bytes);
}

void add_saved(Rows& rows, Report const& report) {
    rows.begin("saved");
    rows.size(
        "can move",
        report.saved_bytes,
        fmt::format(
            "{} tensors; {} stay (parameters, small tensors, others)",
            report.saved_values,
            report.passed_tensors
        )
    );
    rows.size("freed", report.freed_bytes);
    rows.size_if_any("still referenced", report.kept_by_others_bytes, "chosen, not freed");
}

void add_recomputed(Rows& rows, Report const& report) {
    if (report.recomputed_values == 0 && report.refused_recipes == 0) {
        return;
    }
    rows.begin("recomputed");
    if (report.refused_recipes > 0) {
        rows.row(
            "refused", std::to_string(report.refused_recipes), "kinds of operators: other bits"
        );
    }
    if (report.recomputed_values == 0) {
        return;
    }
    rows.size(
        "made again",
        report.recomputed_bytes,
        fmt::format(
            "{} tensors by {} operators", report.recomputed_values, report.recomputed_operators
        )
    );
    rows.size("away at once", report.recompute_away_peak_bytes, "at most");
    double const of_steps = report.steps_ns > 0 ? static_cast<double>(report.recompute_ns) /
                                                      static_cast<double>(report.steps_ns)
                                                : 0;
    rows.seconds("took", report.recompute_ns, fmt::format("{:.1f}% of the steps", 100 * of_steps));
}

void add_moved(Rows& rows, Report const& report) {
    std::int64_t const nvme_loaded_bytes = report.nvme_moved_bytes - report.nvme_stored_bytes;
    rows.begin("moved");
    if (report.stored_bytes + report.loaded_bytes == 0) {
        rows.size("nothing", 0);
        return;
    }
    rows.moved("copied out", report.copy_out_bytes, report.copy_out_ns);
    rows.moved("copied in", report.copy_in_bytes, report.copy_in_ns);
    rows.moved(
        "stored on host",
        report.stored_bytes - report.nvme_stored_bytes,
        report.store_busy_ns - report.nvme_store_busy_ns
    );
    rows.moved(
        "loaded from host",
        report.loaded_bytes - nvme_loaded_bytes,
        report.load_busy_ns - report.nvme_load_busy_ns
    );
    rows.moved("stored on NVMe", report.nvme_stored_bytes, report.nvme_store_busy_ns);
    rows.moved("loaded from NVMe", nvme_loaded_bytes, report.nvme_load_busy_ns);
}

/// "affine4:group=128, 3 values, 6.0 MiB to 900.0 KiB, encoded at 3.10 GB/s, relative error 0.05".
std::string note_of(CodecReport const& row) {
    if (row.values == 0) {
        return fmt::format("{}, 0 of {} encoded", row.codec, row.went_raw);
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
    add("encoded at", Rows::rate(row.raw_bytes, row.encode_ns));
    add("decoded at", Rows::rate(row.decoded_bytes, row.decode_ns));
    if (row.value_squares > 0) {
        add("relative error", fmt::format("{:.2g}", row.relative_l2_error()));
    }
    return row.went_raw > 0 ? note + fmt::format(", {} not encoded", row.went_raw) : note;
}

void add_codecs(Rows& rows, Report const& report) {
    rows.begin("codecs");
    for (CodecReport const& row : report.codecs) {
        std::string const bits = row.values > 0 ? fmt::format("{:.2f} bits", row.bits) : "raw";
        rows.row(row.tensor_class, bits, note_of(row));
    }
    if (report.raw_for_two_savers > 0) {
        rows.row(
            "not encoded",
            std::to_string(report.raw_for_two_savers),
            "values that two savers read for different purposes"
        );
    }
}

void add_stalls(Rows& rows, Report const& report) {
    constexpr std::array<std::string_view, kStallCauses> kLabels{
        "copy out", "copy in", "NVMe", "making room"};
    rows.begin("stalls");
    std::int64_t sum_ns = 0;
    for (std::size_t i = 0; i < kStallCauses; ++i) {
        if (report.stall_by_cause_ns[i] > 0) {
            rows.seconds(kLabels[i], report.stall_by_cause_ns[i]);
            sum_ns += report.stall_by_cause_ns[i];
        }
    }
    if (sum_ns == 0) {
        rows.seconds("none", 0);
    }
}

void add_places(Rows& rows, Report const& report) {
    rows.begin("places");
    std::string const locked =
        report.host_locked_bytes > 0 ? format_size(report.host_locked_bytes) + " locked" : "";
    rows.size_if_any("host at most", report.host_peak_bytes);
    rows.size_if_any("host requested", report.host_requested_bytes, locked);
    rows.size_if_any("NVMe at most", report.nvme_peak_bytes);
    rows.size_if_any("staging", report.staging_bytes);
}

/// A plan slower than what was before it is said to be so.
void add_plan(Rows& rows, PlanReport const& plan) {
    if (plan.policy.empty()) {
        return;
    }
    rows.begin("plan");
    if (!plan.refusal.empty()) {
        rows.row("none", plan.policy, plan.refusal);
        return;
    }
    bool const has_begun = plan.steps > 0 || plan.peak_bytes > 0;
    if (plan.foretold_step_ns == 0 && !has_begun) {
        rows.row("not made yet", plan.policy, "a step has to be recorded first");
        return;
    }
    rows.row("by", plan.policy, fmt::format("{} steps", plan.steps));
    if (plan.feedback_rounds > 0) {
        rows.row("mended", fmt::format("{} times", plan.feedback_rounds), "after late returns");
    }
    if (plan.foretold_step_ns > 0) {
        rows.seconds("step foretold", plan.foretold_step_ns);
    }
    rows.size_if_any("peak foretold", plan.foretold_peak_bytes);
    if (plan.steps > 0) {
        bool const is_slower = plan.recorded_step_ns > 0 && plan.step_ns - plan.recorded_step_ns >
                                                                plan.recorded_step_ns / kNoiseShare;
        rows.seconds(
            "step", plan.step_ns, is_slower ? "slower than the recorded step under online" : ""
        );
        rows.size("peak", plan.peak_bytes);
    }
    if (plan.recorded_step_ns > 0) {
        rows.seconds("step recorded", plan.recorded_step_ns, "under online");
    }
}

}  // namespace

std::vector<ReportRow> rows_of(Report const& report) {
    Rows rows;
    add_device(rows, report);
    add_peak(rows, report.device_peak_split);
    add_saved(rows, report);
    add_recomputed(rows, report);
    add_moved(rows, report);
    add_codecs(rows, report);
    add_stalls(rows, report);
    add_places(rows, report);
    add_plan(rows, report.plan);
    return rows.take();
}

}  // namespace spillway
