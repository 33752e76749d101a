// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace spillway {

namespace {

struct Unit {
    std::string_view name;
    double factor;
};

/// In any case. A letter alone is binary, as in Docker, Slurm and most tools; with B it is decimal.
constexpr std::array<Unit, 26> kUnits{{
    {"", 1.0},
    {"b", 1.0},
    {"k", 1024.0},
    {"m", 1048576.0},
    {"g", 1073741824.0},
    {"t", 1099511627776.0},
    {"p", 1125899906842624.0},
    {"e", 1152921504606846976.0},
    {"ki", 1024.0},
    {"mi", 1048576.0},
    {"gi", 1073741824.0},
    {"ti", 1099511627776.0},
    {"pi", 1125899906842624.0},
    {"ei", 1152921504606846976.0},
    {"kib", 1024.0},
    {"mib", 1048576.0},
    {"gib", 1073741824.0},
    {"tib", 1099511627776.0},
    {"pib", 1125899906842624.0},
    {"eib", 1152921504606846976.0},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
    {"pb", 1e15},
    {"eb", 1e18},
}};

Error bad(std::string_view text, std::string_view why) {
    return Error{Errc::bad_argument, fmt::format("'{}' {}", text, why), ""};
}

Error not_a_size(std::string_view text, bool may_be_share) {
    std::string why = "is not a size; write it as 600MiB (KiB, MiB, GiB)";
    why += may_be_share ? ", 700MB (KB, MB, GB) or 80%" : " or 700MB (KB, MB, GB)";
    return bad(text, why);
}

/// A size is a signed 64-bit number, less what rounding to a `double` takes.
constexpr double kMostBytes = 9.0e18;

Error too_large(std::string_view text) {
    return bad(text, "is too large; a size is at most 9 EB");
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') {
        text.remove_prefix(1);
    }
    while (!text.empty() && text.back() == ' ') {
        text.remove_suffix(1);
    }
    return text;
}

Result<std::int64_t> checked(double size, std::string_view text, bool may_be_share) {
    if (std::isnan(size) || std::isinf(size)) {
        return not_a_size(text, may_be_share);
    }
    if (size < 0) {
        return bad(text, "is negative; write it as 600MiB");
    }
    if (size > 0 && size < 1) {
        std::string const share = may_be_share ? ", or a share, such as 80%" : "";
        return bad(text, "is less than one byte; write it as 600MiB" + share);
    }
    if (size > kMostBytes) {
        return too_large(text);
    }
    return static_cast<std::int64_t>(size);
}

}  // namespace

Nanos operator/(Bytes amount, BytesPerSec rate) {
    double const ns = static_cast<double>(amount.count) / rate.count * 1e9;
    if (!(rate.count > 0) || ns > 9.0e18) {
        return {std::numeric_limits<std::int64_t>::max()};
    }
    return {static_cast<std::int64_t>(std::llround(ns))};
}

Result<std::int64_t> parse_size(std::string_view text, std::int64_t whole_bytes) {
    std::string_view const body = trimmed(text);
    bool const may_be_share = whole_bytes > 0;
    double number = 0;
    auto const [end, failure] = std::from_chars(body.data(), body.data() + body.size(), number);
    if (failure == std::errc::result_out_of_range && body.find('-') == body.npos) {
        return too_large(text);
    }
    if (failure != std::errc{}) {
        return not_a_size(text, may_be_share);
    }
    std::string_view const unit = trimmed(body.substr(static_cast<std::size_t>(end - body.data())));
    if (unit == "%") {
        if (!may_be_share) {
            return bad(text, "is a share, which cannot be given here; write it as 600MiB");
        }
        if (number > 100) {
            return bad(text, "is more than all; a share is at most 100%");
        }
        double const share = std::floor(number / 100.0 * static_cast<double>(whole_bytes));
        return checked(share, text, may_be_share);
    }
    std::string lower(unit);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
    });
    for (auto const& [name, factor] : kUnits) {
        if (lower == name) {
            return checked(number * factor, text, may_be_share);
        }
    }
    return not_a_size(text, may_be_share);
}

std::string format_size(std::int64_t size_bytes) {
    double size = static_cast<double>(size_bytes);
    if (std::abs(size) < 1024.0) {
        return fmt::format("{} B", size_bytes);
    }
    constexpr std::array<char const*, 6> kNames{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    std::size_t step = 0;
    size /= 1024.0;
    while (std::abs(size) >= 1024.0 && step + 1 < kNames.size()) {
        size /= 1024.0;
        ++step;
    }
    return fmt::format("{:.1f} {}", size, kNames[step]);
}

std::string format_exact_size(std::int64_t size_bytes) {
    return fmt::format("{} ({} bytes)", format_size(size_bytes), size_bytes);
}

}  // namespace spillway
