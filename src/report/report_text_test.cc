// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/report_text.h"

#include "base/units.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace spillway {
namespace {

/// A run on the CPU: 8 MiB under a cap of 10 MiB, half of what was saved over NVMe and back.
Report on_nvme() {
    Report report;
    report.device_limit_bytes = 10_MiB;
    report.device_peak_bytes = 8_MiB;
    report.device_peak_by_phase = {0, 8_MiB, 7_MiB, 1_MiB};
    report.device_resident_peak_bytes = 9_MiB;
    report.saved_tensors = 7;
    report.saved_values = 4;
    report.saved_bytes = 6_MiB;
    report.passed_tensors = 2;
    report.stored_bytes = report.nvme_stored_bytes = report.freed_bytes = 3'000'000;
    report.loaded_bytes = 2'000'000;
    report.nvme_moved_bytes = 5'000'000;
    report.store_busy_ns = report.nvme_store_busy_ns = 2'000'000;
    report.load_busy_ns = report.nvme_load_busy_ns = 1'000'000;
    report.stall_by_cause_ns = {0, 0, 1'500'000'000, 2'000'000};
    report.nvme_peak_bytes = 3_MiB;
    return report;
}

TEST(ReportText, a_table_has_the_rows_that_apply) {
    EXPECT_EQ(
        to_table(on_nvme()),
        "device   allocated at most     8.0 MiB  of 10.0 MiB\n"
        "           in forward          8.0 MiB\n"
        "           in backward         7.0 MiB\n"
        "           in update           1.0 MiB\n"
        "         reserved at most      9.0 MiB  allocated, and cached by the allocator\n"
        "saved    can move              6.0 MiB  4 tensors; 2 stay (parameters, small tensors, "
        "others)\n"
        "         freed                 2.9 MiB\n"
        "moved    stored on NVMe        2.9 MiB  1.50 GB/s\n"
        "         loaded from NVMe      1.9 MiB  2.00 GB/s\n"
        "stalls   NVMe                  1.500 s\n"
        "         making room           0.002 s\n"
        "places   NVMe at most          3.0 MiB\n"
    );
}

TEST(ReportText, a_plan_is_slower_than_the_recorded_step_by_more_than_noise) {
    Report report;
    report.plan.policy = "te";
    report.plan.steps = 2;
    report.plan.recorded_step_ns = 1'000'000'000;
    report.plan.step_ns = 1'020'000'000;
    EXPECT_EQ(to_table(report).find("slower"), std::string::npos);
    report.plan.step_ns = 1'021'000'000;
    EXPECT_NE(
        to_table(report).find("1.021 s  slower than the recorded step under online\n"),
        std::string::npos
    ) << to_table(report);
}

TEST(ReportText, a_device_with_streams_has_copies_locked_memory_and_a_context) {
    Report report;
    report.copy_out_bytes = report.stored_bytes = 4'000'000;
    report.copy_in_bytes = report.loaded_bytes = 1'000'000;
    report.copy_out_ns = report.store_busy_ns = 1'000'000;
    report.copy_in_ns = report.load_busy_ns = 500'000;
    report.stall_by_cause_ns = {1'000'000, 0, 0, 0};
    report.kept_by_others_bytes = 1_MiB;
    report.device_other_bytes = 500_MiB;
    report.host_requested_bytes = report.host_locked_bytes = 64_MiB;
    std::string const table = to_table(report);
    for (char const* const row :
         {"device   allocated at most         0 B  no budget\n",
          "         context and others  500.0 MiB  not counted in the budget\n",
          "         still referenced      1.0 MiB  chosen, not freed\n",
          "moved    copied out            3.8 MiB  4.00 GB/s\n",
          "         copied in           976.6 KiB  2.00 GB/s\n",
          "         stored on host        3.8 MiB  4.00 GB/s\n",
          "stalls   copy out              0.001 s\n",
          "places   host requested       64.0 MiB  64.0 MiB locked\n"}) {
        EXPECT_NE(table.find(row), std::string::npos) << row << "is not in\n" << table;
    }
    EXPECT_EQ(table.find("NVMe"), std::string::npos) << table;
}

TEST(ReportText, what_was_made_again_says_what_it_saved_and_its_share) {
    Report report;
    report.recomputed_values = 3;
    report.recomputed_bytes = 6_MiB;
    report.recomputed_operators = 5;
    report.recompute_ns = 30'000'000;
    report.recompute_away_peak_bytes = 4_MiB;
    report.steps_ns = 240'000'000;
    std::string const table = to_table(report);
    for (char const* const row :
         {"recomputed made again            6.0 MiB  3 tensors by 5 operators\n",
          "           away at once          4.0 MiB  at most\n",
          "           took                  0.030 s  12.5% of the steps\n"}) {
        EXPECT_NE(table.find(row), std::string::npos) << row << "is not in\n" << table;
    }
}

TEST(ReportText, kinds_of_operators_that_gave_other_bits) {
    Report report;
    report.refused_recipes = 1;
    std::string const table = to_table(report);
    EXPECT_NE(table.find("recomputed refused"), std::string::npos) << table;
    EXPECT_NE(table.find("1  kinds of operators: other bits\n"), std::string::npos) << table;
    EXPECT_EQ(table.find("made again"), std::string::npos) << table;
}

/// Two classes under a codec: one as its codec is meant, one whose values it mostly cannot hold.
Report with_codecs() {
    Report report = on_nvme();
    CodecReport linear{.tensor_class = "linear_input", .codec = "affine4", .bits = 4.5};
    linear.values = 3;
    linear.raw_bytes = 8_MiB;
    linear.encoded_bytes = 9 * (1_MiB / 8);
    linear.encode_ns = linear.raw_bytes / 4;
    linear.decoded_bytes = 4_MiB;
    linear.decode_ns = linear.decoded_bytes / 8;
    linear.error_squares = 1;
    linear.value_squares = 400;
    CodecReport mask{.tensor_class = "mask", .codec = "mask", .bits = 1.0625, .values = 1};
    mask.raw_bytes = 1_KiB;
    mask.encoded_bytes = 136;
    mask.went_raw = 2;
    CodecReport none{.tensor_class = "norm_input", .codec = "affine8", .went_raw = 5};
    report.codecs = {linear, mask, none};
    return report;
}

TEST(ReportText, a_table_has_a_row_for_each_class_and_codec) {
    std::string const table = to_table(with_codecs());
    for (char const* const row :
         {"codecs   linear_input        4.50 bits  affine4, 3 values, 8.0 MiB to 1.1 MiB, encoded "
          "at "
          "4.00 GB/s, decoded at 8.00 GB/s, relative error 0.05\n",
          "         norm_input                raw  affine8, 0 of 5 encoded\n",
          "         mask                1.06 bits  mask, 1 values, 1.0 KiB to 136 B, 2 not "
          "encoded\n"}) {
        EXPECT_NE(table.find(row), std::string::npos) << row << "is not in\n" << table;
    }
}

TEST(ReportText, values_that_two_operators_read_differently_are_counted) {
    Report report = with_codecs();
    EXPECT_EQ(to_table(report).find("not encoded    "), std::string::npos);
    report.raw_for_two_savers = 3;
    std::string const table = to_table(report);
    EXPECT_NE(
        table.find("         not encoded                 3  values that two savers read for "
                   "different purposes\n"),
        std::string::npos
    ) << table;
    auto const json = nlohmann::json::parse(to_json(report), nullptr, false);
    EXPECT_EQ(json["raw_for_two_savers"], 3);
}

TEST(ReportText, json_has_every_number_of_a_codec) {
    auto const json = nlohmann::json::parse(to_json(with_codecs()), nullptr, false);
    ASSERT_EQ(json["codecs"].size(), 3U);
    auto const& row = json["codecs"][0];
    EXPECT_EQ(row["tensor_class"], "linear_input");
    EXPECT_EQ(row["codec"], "affine4");
    EXPECT_EQ(row["encoded_bytes"], 9 * (1_MiB / 8));
    EXPECT_EQ(row["relative_l2_error"], 0.05);
    EXPECT_EQ(json["codecs"][1]["went_raw"], 2);
    EXPECT_EQ(json["codecs"][1]["relative_l2_error"], 0);
    // Two strings, plain fields of 8 bytes each, and the error that the two sums make.
    EXPECT_EQ(row.size(), 2 + (sizeof(CodecReport) - 2 * sizeof(std::string)) / 8 + 1);
}

TEST(ReportText, a_table_splits_the_peak_and_makes_room_for_long_modules) {
    Report report = on_nvme();
    report.device_peak_split = {
        .parameter_bytes = 1_MiB,
        .gradient_bytes = 512_KiB,
        .saved = {{"transformer.h.*.mlp", 4_MiB}, {"", 1_MiB}},
        .read_ahead_bytes = 512_KiB,
        .other_bytes = 1_MiB};
    std::string const table = to_table(report);
    for (char const* const row :
         {"device   allocated at most        8.0 MiB  of 10.0 MiB\n",
          "peak     parameters               1.0 MiB\n",
          "         gradients              512.0 KiB\n",
          "         saved tensors            5.0 MiB\n",
          "           transformer.h.*.mlp    4.0 MiB\n",
          "           (model)                1.0 MiB\n",
          "         read-ahead, staging    512.0 KiB\n",
          "         temporaries, other       1.0 MiB\n"}) {
        EXPECT_NE(table.find(row), std::string::npos) << row << "is not in\n" << table;
    }
    auto const json = nlohmann::json::parse(to_json(report), nullptr, false);
    EXPECT_EQ(json["device_peak_split"]["saved"], 5_MiB);
    EXPECT_EQ(json["device_peak_saved_by_module"][0]["module"], "transformer.h.*.mlp");
    EXPECT_EQ(json["device_peak_saved_by_module"][0]["bytes"], 4_MiB);
}

TEST(ReportText, html_has_the_rows_of_the_table_with_each_group_named_once) {
    std::string const html = to_html(on_nvme());
    auto const has = [&html](std::string const& part) {
        EXPECT_NE(html.find(part), std::string::npos) << part << " is not in\n" << html;
    };
    has("rowspan=\"5\" style=\"text-align:left;vertical-align:top\">device</th>");
    has("padding-left:2em\">in forward</td>");
    has(">8.0 MiB</td><td style=\"text-align:left\">of 10.0 MiB</td></tr>\n");
    has(">loaded from NVMe</td>");
    std::size_t groups = 0;
    for (std::size_t at = 0; (at = html.find("<th ", at)) != std::string::npos; ++at) {
        ++groups;
    }
    EXPECT_EQ(groups, 5U);
}

TEST(ReportText, html_is_escaped_has_no_script_and_takes_the_colours_that_it_finds) {
    Report report;
    report.codecs = {{.tensor_class = "<script>alert('1')</script>", .codec = "a&b\"c"}};
    std::string const html = to_html(report);
    EXPECT_NE(html.find("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"), std::string::npos);
    EXPECT_NE(html.find("a&amp;b&quot;c"), std::string::npos);
    for (char const* const never : {"<script", "color:", "background", "href", "src=", "onload"}) {
        EXPECT_EQ(html.find(never), std::string::npos) << never;
    }
}

TEST(ReportText, a_session_that_did_nothing_says_so) {
    EXPECT_EQ(
        to_table(Report()),
        "device   allocated at most         0 B  no budget\n"
        "saved    can move                  0 B  0 tensors; 0 stay (parameters, small tensors, "
        "others)\n"
        "         freed                     0 B\n"
        "moved    nothing                   0 B\n"
        "stalls   none                  0.000 s\n"
    );
}

TEST(ReportText, json_has_its_version_and_every_number_by_name) {
    auto const json = nlohmann::json::parse(to_json(on_nvme()), nullptr, false);
    ASSERT_TRUE(json.is_object());
    EXPECT_EQ(json["format"], "spillway.report");
    EXPECT_EQ(json["version"], 8);
    EXPECT_EQ(json["device_peak_by_phase"]["backward"], 7_MiB);
    EXPECT_EQ(json["stall_by_cause_ns"]["nvme"], 1'500'000'000);
    EXPECT_EQ(json["nvme_stored_bytes"], 3'000'000);
    EXPECT_EQ(json["codecs"].size(), 0U);
    // Plain fields of 8 bytes each; the two arrays, the vector and the plan are one name here, the
    // split of the peak is two, and head and version are two.
    std::size_t const plain = (sizeof(Report) - sizeof(std::vector<CodecReport>) -
                               sizeof(PeakSplit) - sizeof(PlanReport)) /
                              8;
    EXPECT_EQ(json.size(), plain - kPhases - kStallCauses + 4 + 2 + 2);
    // The same of the split, whose vector is one name.
    EXPECT_EQ(
        json["device_peak_split"].size(),
        (sizeof(PeakSplit) - sizeof(std::vector<ModuleBytes>)) / 8 + 1
    );
}

}  // namespace
}  // namespace spillway
