// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/progress.h"

#include "spillway/units.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>

namespace spillway::train {

namespace {

template <typename... Args>
std::string formatted(char const* format, Args... args) {
    std::array<char, 160> text{};
    std::snprintf(text.data(), text.size(), format, args...);
    return text.data();
}

std::string duration_of(double seconds) {
    auto const whole = static_cast<long long>(std::ceil(seconds));
    if (whole >= 3600) {
        return formatted("%lldh%02lldm", whole / 3600, whole / 60 % 60);
    }
    if (whole >= 60) {
        return formatted("%lldm%02llds", whole / 60, whole % 60);
    }
    return formatted("%llds", whole);
}

}  // namespace

std::string line_of(StepNews const& news) {
    std::string line = formatted(
        "step %lld/%lld on %s  loss %.4f  %.0f tokens/s",
        static_cast<long long>(news.step),
        static_cast<long long>(news.total),
        news.device.c_str(),
        news.loss,
        news.tokens_per_s
    );
    if (news.device_peak_bytes) {
        line += "  device peak " + format_size(*news.device_peak_bytes);
    }
    if (news.nvme_bytes_per_s) {
        line += formatted("  nvme %.2f GB/s", *news.nvme_bytes_per_s / 1e9);
    }
    return line + "  " + duration_of(news.seconds_left) + " left";
}

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
    end_line();
}

void Progress::show(StepNews const& news) {
    auto const now = std::chrono::steady_clock::now();
    if (terminal_) {
        std::fprintf(stderr, "\r\033[K%s", line_of(news).c_str());
        std::fflush(stderr);
        line_open_ = true;
        return;
    }
    bool const due = !last_ || now - *last_ >= std::chrono::seconds(1);
    if (due || news.step == news.total) {
        std::fprintf(stderr, "%s\n", line_of(news).c_str());
        last_ = now;
    }
}

void Progress::print(std::string const& line) {
    end_line();
    std::fprintf(stderr, "spillway: %s\n", line.c_str());
}

void Progress::end_line() {
    if (line_open_) {
        std::fputs("\n", stderr);
        line_open_ = false;
    }
}

}  // namespace spillway::train
