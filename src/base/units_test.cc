// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace spillway {
namespace {

std::int64_t parsed(std::string_view text, std::int64_t whole_bytes = 0) {
    Result<std::int64_t> const size = parse_size(text, whole_bytes);
    EXPECT_TRUE(size.ok()) << text;
    return size.ok() ? *size : -1;
}

TEST(UnitsTest, sizes_are_read_as_people_type_them) {
    EXPECT_EQ(parsed("600MiB"), 600 * 1048576);
    EXPECT_EQ(parsed("1.5 GiB"), 1610612736);
    EXPECT_EQ(parsed("2TiB"), 2199023255552);
    EXPECT_EQ(parsed("1KiB"), 1024);
    EXPECT_EQ(parsed("700MB"), 700'000'000);
    EXPECT_EQ(parsed("1KB"), 1000);
    EXPECT_EQ(parsed("3GB"), 3'000'000'000);
    EXPECT_EQ(parsed("1TB"), 1'000'000'000'000);
    EXPECT_EQ(parsed("4096"), 4096);
    EXPECT_EQ(parsed("4096B"), 4096);
    EXPECT_EQ(parsed("  12 B "), 12);
    EXPECT_EQ(parsed("0"), 0);
}

TEST(UnitsTest, common_spellings_in_any_case_are_taken) {
    for (std::string_view const text : {"8g", "8G", "8Gi", "8gi", "8GIB", "8 gib", "8192m"}) {
        EXPECT_EQ(parsed(text), std::int64_t{8} << 30) << text;
    }
    EXPECT_EQ(parsed("8gb"), 8'000'000'000);
    EXPECT_EQ(parsed("8Gb"), 8'000'000'000);
}

TEST(UnitsTest, more_than_all_is_refused_with_the_limit) {
    EXPECT_NE(parse_size("120%", 1000).error().what.find("at most 100%"), std::string::npos);
}

TEST(UnitsTest, a_share_is_of_the_whole) {
    EXPECT_EQ(parsed("80%", 1000), 800);
    EXPECT_EQ(parsed("100 %", 7), 7);
    EXPECT_EQ(parsed("12.5%", 800), 100);
}

TEST(UnitsTest, what_is_no_size_is_refused_as_typed) {
    for (std::string_view const text :
         {"",
          " ",
          "x",
          "MiB",
          "-1",
          "-5MiB",
          "12XB",
          "12 Mibi",
          "12bb",
          "1e30GiB",
          "nan",
          "inf",
          "50%",
          "1 2MiB",
          "10MiBx"}) {
        Result<std::int64_t> const size = parse_size(text, 0);
        ASSERT_FALSE(size.ok()) << text;
        EXPECT_EQ(size.error().code, Errc::bad_argument);
        EXPECT_NE(size.error().what.find("'" + std::string(text) + "'"), std::string::npos);
    }
    EXPECT_FALSE(parse_size("101%", 1000).ok());
}

TEST(UnitsTest, what_is_too_large_is_refused_as_that) {
    EXPECT_EQ(parsed("1PiB"), std::int64_t{1} << 50);
    EXPECT_EQ(parsed("7EiB"), std::int64_t{7} << 60);
    EXPECT_EQ(parsed("2p"), std::int64_t{2} << 50);
    EXPECT_EQ(parsed("1PB"), 1'000'000'000'000'000);
    EXPECT_EQ(parsed("9EB"), 9'000'000'000'000'000'000);
    std::string const many(400, '9');  // no double
    for (std::string const& text :
         {std::string("8EiB"), std::string("10EB"), "1" + std::string(30, '0'), many}) {
        EXPECT_EQ(
            parse_size(text, 0).error().what, "'" + text + "' is too large; a size is at most 9 EB"
        );
    }
    for (char const* text : {"inf", "-1e400"}) {
        EXPECT_NE(parse_size(text, 0).error().what.find("is not a size"), std::string::npos);
    }
}

TEST(UnitsTest, why_a_text_is_no_size) {
    EXPECT_EQ(parse_size("-8EiB", 0).error().what, "'-8EiB' is negative; write it as 600MiB");
    EXPECT_EQ(
        parse_size("0.5", 8).error().what,
        "'0.5' is less than one byte; write it as 600MiB, or a share, such as 80%"
    );
    EXPECT_EQ(
        parse_size("80%", 0).error().what,
        "'80%' is a share, which cannot be given here; write it as 600MiB"
    );
    EXPECT_EQ(
        parse_size("150%", 0).error().what,
        "'150%' is a share, which cannot be given here; write it as 600MiB"
    );
    EXPECT_EQ(parse_size("80%", 1).value(), 0);
    EXPECT_EQ(
        parse_size("much", 0).error().what,
        "'much' is not a size; write it as 600MiB (KiB, MiB, GiB) or 700MB (KB, MB, GB)"
    );
}

TEST(UnitsTest, sizes_are_written_in_binary_units) {
    EXPECT_EQ(format_size(0), "0 B");
    EXPECT_EQ(format_size(1023), "1023 B");
    EXPECT_EQ(format_size(1024), "1.0 KiB");
    EXPECT_EQ(format_size(537'185'485), "512.3 MiB");
    EXPECT_EQ(format_size(5_GiB), "5.0 GiB");
    EXPECT_EQ(format_exact_size(1'052'672), "1.0 MiB (1052672 bytes)");
    EXPECT_EQ(format_size(4096 * 1024_GiB), "4.0 PiB");
    EXPECT_EQ(format_size(-2048), "-2.0 KiB");
}

TEST(UnitsTest, bytes_over_rate_is_a_duration) {
    EXPECT_EQ(Bytes{1'000'000} / BytesPerSec{1e9}, Nanos{1'000'000});
    EXPECT_EQ(Bytes{0} / BytesPerSec{1e9}, Nanos{0});
    Nanos const never{std::numeric_limits<std::int64_t>::max()};
    EXPECT_EQ(Bytes{1} / BytesPerSec{0}, never);
    EXPECT_EQ(Bytes{1} / BytesPerSec{-1}, never);
    EXPECT_EQ(Bytes{std::int64_t{1} << 62} / BytesPerSec{1e-6}, never);
}

TEST(UnitsTest, bytes_and_durations_add_up_and_compare) {
    Bytes bytes{3};
    bytes += Bytes{4};
    bytes -= Bytes{1};
    EXPECT_EQ(bytes, Bytes{6});
    EXPECT_LT(Bytes{1} + Bytes{1}, Bytes{3});
    Nanos time{5};
    time += Nanos{2};
    EXPECT_EQ(time - Nanos{1}, Nanos{6});
}

TEST(UnitsTest, rounding_goes_up_to_the_unit) {
    EXPECT_EQ(round_up(0, 4096), 0);
    EXPECT_EQ(round_up(1, 4096), 4096);
    EXPECT_EQ(round_up(4096, 4096), 4096);
    EXPECT_EQ(round_up(4097, 4096), 8192);
}

}  // namespace
}  // namespace spillway
