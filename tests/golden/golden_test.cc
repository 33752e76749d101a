// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The golden texts parse, are written again byte by byte as they are, and are what the pages in
// docs/formats/ show.

#include "golden/golden.h"

#include "executor/event_log.h"
#include "machine/machine.h"
#include "plan/plan.h"
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

TEST(Golden, event_log_is_written_as_it_was_read) {
    std::istringstream stream(golden("events.jsonl"));
    Result<EventLog> const log = read_event_log(stream);
    ASSERT_TRUE(log.ok()) << log.error().message();
    EXPECT_EQ(to_text(*log), golden("events.jsonl"));
}

TEST(Golden, timeline_opens_in_a_trace_viewer) {
    Result<Timeline> const timeline = parse_timeline(golden("timeline.json"));
    ASSERT_TRUE(timeline.ok());
    EXPECT_EQ(to_chrome_trace(*timeline), golden("timeline.chrome.json"));
}

TEST(Golden, plan_fits_its_trace_and_machine) {
    Result<Trace> const trace = parse_trace(golden("trace.json"));
    Result<Machine> const machine = parse_machine(golden("machine.json"));
    Result<Plan> const plan = parse_plan(golden("plan.json"));
    ASSERT_TRUE(trace.ok() && machine.ok() && plan.ok());
    EXPECT_TRUE(validate(*plan, *trace, *machine).ok());
}

TEST(Golden, pages_show_the_golden_texts) {
    for (std::string const name : {"trace", "machine", "plan", "timeline"}) {
        std::string const page = source_file("docs/formats/" + name + ".md");
        EXPECT_NE(page.find("```json\n" + golden(name + ".json") + "```"), std::string::npos)
            << name;
    }
    std::string const page = source_file("docs/formats/events.md");
    EXPECT_NE(page.find("```json\n" + golden("events.jsonl") + "```"), std::string::npos);
}

}  // namespace
}  // namespace spillway
