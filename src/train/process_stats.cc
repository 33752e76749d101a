// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/process_stats.h"

#include <fstream>
#include <string>
#include <string_view>

namespace spillway::train {

namespace {

// The number after `name` in a file of "name: number unit" lines.
std::optional<std::int64_t> number_in(char const* path, std::string_view name) {
    std::ifstream lines(path);
    std::string word;
    while (lines >> word) {
        std::int64_t number = 0;
        if (word == name && lines >> number) {
            return number;
        }
        std::getline(lines, word);
    }
    return std::nullopt;
}

std::optional<std::int64_t> status_bytes(std::string_view name) {
    auto const kibibytes = number_in("/proc/self/status", name);
    return kibibytes ? std::optional{*kibibytes << 10} : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> process_peak_bytes() {
    return status_bytes("VmHWM:");
}

std::optional<std::int64_t> resident_bytes() {
    return status_bytes("VmRSS:");
}

std::optional<DiskBytes> disk_bytes() {
    auto const read = number_in("/proc/self/io", "read_bytes:");
    auto const written = number_in("/proc/self/io", "write_bytes:");
    if (!read || !written) {
        return std::nullopt;
    }
    return DiskBytes{*read, *written};
}

}  // namespace spillway::train
