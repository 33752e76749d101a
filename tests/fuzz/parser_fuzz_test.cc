// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Whatever the bytes of a text: an error that says something, or an object whose own text gives the
// same object again. Never a crash.

#include "executor/event_log.h"
#include "fuzz/fuzz_main.h"
#include "fuzz/random_case.h"
#include "golden/golden.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "timeline/timeline.h"
#include "trace/trace.h"

#include <gtest/gtest.h>

#include <array>
#include <sstream>
#include <string>

namespace spillway::fuzz {
namespace {

Result<EventLog> parse_log(std::string_view text) {
    std::istringstream stream{std::string(text)};
    return read_event_log(stream);
}

/// Parses `text`; what comes out must be sound. Returns whether something came out.
using Check = bool (*)(std::string const& text);

template <typename Parse, typename Write>
bool is_sound(std::string const& text, Parse&& parse, Write&& write) {
    auto const first = parse(text);
    if (!first) {
        EXPECT_FALSE(first.error().what.empty()) << text;
        return false;
    }
    auto const second = parse(write(*first));
    EXPECT_TRUE(second.ok()) << second.error().message() << "\n" << text;
    EXPECT_TRUE(second.ok() && *second == *first) << text;
    return true;
}

struct Format {
    char const* file;
    Check check;
};

bool is_sound_log(std::string const& text) {
    bool const came_out = is_sound(text, parse_log, [](auto const& log) { return to_text(log); });
    if (came_out) {
        (void)replay(*parse_log(text));  // other events, but never an assertion
    }
    return came_out;
}

std::array<Format, 6> const kFormats{{
    {"trace.json",
     [](std::string const& text) {
         return is_sound(text, parse_trace, [](auto const& t) { return to_json_text(t); });
     }},
    {"machine.json",
     [](std::string const& text) {
         return is_sound(text, parse_machine, [](auto const& m) { return to_json_text(m); });
     }},
    {"plan.json",
     [](std::string const& text) {
         return is_sound(text, parse_plan, [](auto const& p) { return to_json_text(p); });
     }},
    {"timeline.json",
     [](std::string const& text) {
         return is_sound(text, parse_timeline, [](auto const& t) { return to_json_text(t); });
     }},
    {"events.jsonl", is_sound_log},
    {"coded_events.jsonl", is_sound_log},
}};

TEST(ParserFuzz, golden_texts_are_sound) {
    for (Format const& format : kFormats) {
        EXPECT_TRUE(format.check(golden(format.file))) << format.file;
    }
}

TEST(ParserFuzz, every_truncation_is_an_error) {
    for (Format const& format : kFormats) {
        std::string const text = golden(format.file);
        bool const by_line = std::string_view(format.file).ends_with("jsonl");
        std::size_t const step =
            slower() == 1 ? 1 : 7;  // a prime: cuts every kind of line anywhere
        for (std::size_t length = 0; length + 1 < text.size(); length += step) {
            bool const came_out = format.check(text.substr(0, length));
            EXPECT_TRUE(by_line || !came_out) << format.file << " cut at " << length;
        }
    }
}

TEST(ParserFuzz, every_altered_byte_is_survived) {
    for (Format const& format : kFormats) {
        std::string const text = golden(format.file);
        // Long texts: one or two of the eight bits; under a sanitizer of every third byte.
        int const step = text.size() < 2000 && slower() == 1 ? 1 : 5;
        std::size_t const stride = slower() == 1 ? 1 : 3;
        for (std::size_t at = 0; at < text.size(); at += stride) {
            for (int bit = static_cast<int>(at) % step; bit < 8; bit += step) {
                std::string altered = text;
                altered[at] = static_cast<char>(altered[at] ^ (1 << bit));
                (void)format.check(altered);
            }
        }
    }
}

/// Cuts, doubles, swaps and overwrites pieces.
std::string mutate(Dice& dice, std::string text) {
    static constexpr std::array<char const*, 12> kPieces{
        "-1",
        "9223372036854775807",
        "1e999",
        "null",
        "{}",
        "[",
        "\"",
        ",",
        "0",
        "\xff",
        "true",
        "18446744073709551615"};
    auto const place = [&] { return static_cast<std::size_t>(dice.in(0, std::ssize(text))); };
    for (std::int64_t i = dice.in(1, 6); i > 0; --i) {
        std::size_t const at = place();
        std::size_t const length = static_cast<std::size_t>(dice.in(0, 40));
        switch (dice.in(0, 3)) {
            case 0:
                text.erase(at, length);
                break;
            case 1:
                text.insert(at, text.substr(std::min(place(), text.size()), length));
                break;
            case 2:
                text.replace(at, length / 8, kPieces[static_cast<std::size_t>(dice.in(0, 11))]);
                break;
            default:
                if (at < text.size()) {
                    text[at] = static_cast<char>(dice.in(0, 255));
                }
        }
    }
    return text;
}

TEST(ParserFuzz, mutations_are_survived) {
    for (std::uint64_t const seed : seeds(3000)) {
        Dice dice(seed);
        Format const& format = kFormats[seed % kFormats.size()];
        (void)format.check(mutate(dice, golden(format.file)));
        ASSERT_FALSE(testing::Test::HasFailure()) << rerun(seed) << format.file;
    }
}

/// Drops, doubles and swaps whole lines of a recorded run: still lines, but no program's order.
TEST(ParserFuzz, a_shuffled_log_is_survived) {
    std::vector<std::string> lines;
    std::istringstream stream(golden("events.jsonl"));
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line + "\n");
    }
    for (std::uint64_t const seed : seeds(3000)) {
        Dice dice(seed);
        std::string text = lines[0];
        for (std::size_t i = 1; i < lines.size(); ++i) {
            bool const other = dice.percent(10);
            std::int64_t const pick = dice.in(1, std::ssize(lines) - 1);
            text += dice.percent(7) ? "" : lines[other ? static_cast<std::size_t>(pick) : i];
        }
        (void)kFormats[4].check(text);
        ASSERT_FALSE(testing::Test::HasFailure()) << rerun(seed);
    }
}

}  // namespace
}  // namespace spillway::fuzz
