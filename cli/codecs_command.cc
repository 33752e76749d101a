// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codecs_command.h"

#include "spillway/codecs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

namespace spillway::cli {

namespace {

/// "3.33 % of range", or "exact".
std::string error_text(CodecSpeed const& speed) {
    if (speed.bound_of.empty()) {
        return "exact";
    }
    if (speed.codec == "sign") {
        return "whether above 0";
    }
    return fmt::format("{:.2f} % of {}", 100 * speed.error_bound, speed.bound_of);
}

std::string table(CodecSpeeds const& speeds) {
    std::string text = fmt::format(
        "{:<20}{:>8}  {:<19}{:>14}{:>13}{:>13}\n",
        "codec",
        "bits",
        "error, at most",
        "1 MiB becomes",
        "encode GB/s",
        "decode GB/s"
    );
    for (CodecSpeed const& speed : speeds.codecs) {
        text += fmt::format(
            "{:<20}{:>8.3f}  {:<19}{:>14}{:>13.2f}{:>13.2f}\n",
            speed.codec,
            speed.bits_per_element,
            error_text(speed),
            fmt::format("{}{}", speed.codec == "lossless" ? "<= " : "", speed.encoded_bytes),
            speed.encode_bytes_per_s / 1e9,
            speed.decode_bytes_per_s / 1e9
        );
    }
    text += fmt::format(
        "memcpy {:.2f} GB/s; rates are raw bytes a second on one core, of {} MiB of normally "
        "distributed float32 (mask: of zeros and ones)\n"
        "range: of a group of elements, maximum minus minimum; largest: its largest magnitude; a "
        "16-bit element's own rounding comes on top\n",
        speeds.copy_bytes_per_s / 1e9,
        speeds.measured_bytes >> 20
    );
    return text;
}

std::string json(CodecSpeeds const& speeds) {
    nlohmann::ordered_json codecs = nlohmann::ordered_json::array();
    for (CodecSpeed const& speed : speeds.codecs) {
        codecs.push_back(
            {{"codec", speed.codec},
             {"lossy", speed.lossy},
             {"bits_per_element", speed.bits_per_element},
             {"error_bound", speed.error_bound},
             {"bound_of", speed.bound_of},
             {"encoded_bytes", speed.encoded_bytes},
             {"encode_bytes_per_s", std::round(speed.encode_bytes_per_s)},
             {"decode_bytes_per_s", std::round(speed.decode_bytes_per_s)}}
        );
    }
    nlohmann::ordered_json const all{
        {"format", "spillway.codecs"},
        {"version", 1},
        {"tensor_bytes", speeds.tensor_bytes},
        {"measured_bytes", speeds.measured_bytes},
        {"copy_bytes_per_s", std::round(speeds.copy_bytes_per_s)},
        {"codecs", std::move(codecs)}};
    return all.dump(2) + "\n";
}

/// "" or why not.
std::string write_file(std::string const& path, std::string const& text) {
    std::FILE* const file = std::fopen(path.c_str(), "w");
    bool const written =
        file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    bool const closed = file != nullptr && std::fclose(file) == 0;
    return written && closed ? "" : std::strerror(errno);
}

}  // namespace

int run_codecs(std::string const& json_file) {
    CodecSpeeds const speeds = measure_codecs();
    std::fputs(table(speeds).c_str(), stdout);
    if (json_file.empty()) {
        return 0;
    }
    std::string const failure = write_file(json_file, json(speeds));
    if (!failure.empty()) {
        std::fprintf(stderr, "spillway: --json %s: %s\n", json_file.c_str(), failure.c_str());
        return 2;
    }
    return 0;
}

}  // namespace spillway::cli
