// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The golden texts parse, are written again byte by byte as they are, and are what the pages in
// docs/formats/ show.

#include "golden/golden.h"

#include "executor/event_log.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "report/chrome_trace.h"
#include "report/report_text.h"
#include "timeline/timeline.h"
#include "trace/trace.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace spillway {
namespace {

template <typename Parse>
void expect_written_as_read(char const* file, Parse&& parse) {
    std::string const text = golden(file);
    auto const parsed = parse(text);
    ASSERT_TRUE(parsed.ok()) << file << ": " << parsed.error().message();
    EXPECT_EQ(to_json_text(*parsed), text) << file;
}

TEST(Golden, nouns_are_written_as_they_were_read) {
    expect_written_as_read("trace.json", parse_trace);
    expect_written_as_read("machine.json", parse_machine);
    expect_written_as_read("plan.json", parse_plan);
    expect_written_as_read("timeline.json", parse_timeline);
}

TEST(Golden, event_logs_are_written_as_they_were_read_and_replay) {
    for (std::string const name :
         {"events.jsonl",
          "coded_events.jsonl",
          "continued_events.jsonl",  // begins between two steps, with the executor's state
          "refused_events.jsonl"}) {
        std::istringstream stream(golden(name));
        Result<EventLog> const log = read_event_log(stream);
        ASSERT_TRUE(log.ok()) << name << ": " << log.error().message();
        EXPECT_EQ(to_text(*log), golden(name));
        ReplayOutcome const outcome = replay(*log);
        EXPECT_TRUE(outcome.identical) << name << ": " << outcome.difference;
    }
}

/// `text` of the first format in today's words: the numbers of the formats, what was `sole`,
/// and what was said in a sentence.
std::string in_todays_format(std::string text) {
    auto const replace = [&text](std::string const& from, std::string const& to) {
        for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
            text.replace(at, from.size(), to);
            at += to.size();
        }
    };
    for (std::string const colon : {"\":", "\": "}) {
        replace("\"spillway_events" + colon + "1", "\"spillway_events" + colon + "6");
    }
    replace("\"sole\"", "\"unshared\"");
    replace("{\"spillway_plan\":1,", "{\"spillway_plan\":3,\"policy\":\"\",\"device_bytes\":0,");
    replace(
        R"("text":"a tensor could not be encoded (injected: not encodable); it goes as it is")",
        R"("notice":{"code":"not_encoded","error":"injected: not encodable"})"
    );
    return text;
}

/// Without what the first format could not tell.
std::string without_recipes(std::string text) {
    std::size_t const begin = text.find("{\"e\":\"made\"");
    return begin == std::string::npos ? text
                                      : text.erase(begin, text.find('\n', begin) + 1 - begin);
}

TEST(Golden, todays_format_says_what_the_first_said) {
    for (std::string const name : {"events.jsonl", "coded_events.jsonl"}) {
        EXPECT_EQ(in_todays_format(golden("format_1/" + name)), without_recipes(golden(name)))
            << name;
    }
}

TEST(Golden, the_first_format_is_refused_in_one_line) {
    EXPECT_EQ(
        parse_trace(golden("format_1/trace.json")).error().message(),
        "trace: the text is of format version 1; this Spillway reads version 6 only"
    );
    EXPECT_EQ(
        parse_machine(golden("format_1/machine.json")).error().message(),
        "machine: the text is of format version 1; this Spillway reads version 2 only"
    );
    std::istringstream stream(golden("format_1/events.jsonl"));
    Result<EventLog> const log = read_event_log(stream);
    ASSERT_FALSE(log.ok());
    EXPECT_EQ(
        log.error().message(),
        "event log, line 1: the text is of format version 1; this Spillway reads version 6 only"
    );
}

TEST(Golden, timeline_opens_in_a_trace_viewer) {
    Result<Timeline> const timeline = parse_timeline(golden("timeline.json"));
    ASSERT_TRUE(timeline.ok());
    EXPECT_EQ(to_chrome_trace(*timeline), golden("timeline.chrome.json"));
}

/// Of one step on a device with streams, with host memory and NVMe.
Report report() {
    Report report;
    report.device_limit_bytes = 71'303'168;
    report.device_bytes = 33'554'432;
    report.device_peak_bytes = 68'157'440;
    report.device_peak_by_phase = {33'554'432, 67'108'864, 68'157'440, 33'554'432};
    report.device_peak_split = {
        .parameter_bytes = 16'777'216,
        .gradient_bytes = 16'777'216,
        .saved = {{"layers.0", 16'777'216}, {"layers.1", 8'388'608}},
        .read_ahead_bytes = 4'194'304,
        .other_bytes = 5'242'880};
    report.device_needed_bytes = 41'943'040;
    report.device_resident_bytes = report.device_resident_peak_bytes = 71'303'168;
    report.device_discarded_bytes = 2'097'152;
    report.device_other_bytes = 419'430'400;
    report.ledger_peak_bytes = 68'157'440;
    report.saved_tensors = 5;
    report.saved_values = 3;
    report.saved_bytes = 29'360'128;
    report.passed_tensors = 2;
    report.stored_bytes = report.loaded_bytes = report.freed_bytes = 20'971'520;
    report.stall_store_ns = 5'672'406;
    report.stall_load_ns = 3'623'217;
    report.stall_by_cause_ns = {0, 177'773, 9'117'850, 41'000};
    report.store_busy_ns = 5'857'169;
    report.load_busy_ns = 3'623'217;
    report.copy_out_bytes = report.copy_in_bytes = 20'971'520;
    report.copy_out_ns = 838'861;
    report.copy_in_ns = 888'865;
    report.host_peak_bytes = 4'194'304;
    report.host_requested_bytes = report.host_locked_bytes = 41'943'040;
    report.nvme_peak_bytes = report.nvme_stored_bytes = 16'777'216;
    report.nvme_moved_bytes = 33'554'432;
    report.nvme_store_busy_ns = 5'672'406;
    report.nvme_load_busy_ns = 3'445'444;
    report.staging_bytes = 33'554'432;
    CodecReport row{.tensor_class = "linear_input", .codec = "affine4:group=128", .bits = 4.5};
    row.values = 2;
    row.raw_bytes = row.decoded_bytes = 16'777'216;
    row.encoded_bytes = 2'359'296;
    row.encode_ns = 4'194'304;
    row.decode_ns = 2'097'152;
    row.error_squares = 25;
    row.value_squares = 10'000;
    report.codecs = {row};
    report.plan = {
        .policy = "te:layers=8",
        .refusal = {},
        .foretold_step_ns = 5'000'000,
        .foretold_peak_bytes = 67'108'864,
        .recorded_step_ns = 6'000'000,
        .steps = 2,
        .step_ns = 5'100'000,
        .feedback_rounds = 1,
        .peak_bytes = 67'108'864};
    return report;
}

TEST(Golden, report_is_written_so) {
    EXPECT_EQ(to_json(report()), golden("report.json"));
}

TEST(Golden, plan_fits_its_trace_and_machine) {
    Result<Trace> const trace = parse_trace(golden("trace.json"));
    Result<Machine> const machine = parse_machine(golden("machine.json"));
    Result<Plan> const plan = parse_plan(golden("plan.json"));
    ASSERT_TRUE(trace.ok() && machine.ok() && plan.ok());
    EXPECT_TRUE(validate(*plan, *trace, *machine).ok());
}

TEST(Golden, pages_show_the_golden_texts) {
    for (std::string const name : {"trace", "machine", "plan", "timeline", "report"}) {
        std::string const page = source_file("docs/formats/" + name + ".md");
        EXPECT_NE(page.find("```json\n" + golden(name + ".json") + "```"), std::string::npos)
            << name;
    }
    std::string const page = source_file("docs/formats/events.md");
    EXPECT_NE(page.find("```json\n" + golden("events.jsonl") + "```"), std::string::npos);
}

}  // namespace
}  // namespace spillway
