// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/option.h"

#include <algorithm>
#include <array>

namespace spillway {

namespace {

struct OptionNames {
    std::string_view cpp;
    std::string_view python;   ///< empty: not an argument there
    std::string_view program;  ///< empty: no flag

    [[nodiscard]] std::string_view at(Face face) const {
        std::string_view const name = face == Face::python    ? python
                                      : face == Face::program ? program
                                                              : cpp;
        return name.empty() ? cpp : name;
    }
};

constexpr auto kOptions = std::to_array<OptionNames>(
    {{"device_budget_bytes", "device_budget", "--device-budget"},
     {"host_budget_bytes", "host_budget", "--host-budget"},
     {"nvme", "nvme", "--nvme"},
     {"nvme_budget_bytes", "nvme_budget", "--nvme-budget"},
     {"nvme_allow_tmpfs", "", "--nvme-allow-tmpfs"},
     {"policy", "policy", "--policy"},
     {"min_value_bytes", "min_tensor_bytes", ""},
     {"record_events", "", "--record-events"},
     {"flight_record", "", "--flight-record"},
     {"device", "", "--device"},
     {"timeline_file", "timeline", "--timeline"},
     {"lossy", "lossy", "--lossy"},
     {"codecs", "codec", "--codec"},
     {"nonfinite", "nonfinite", "--nonfinite"},
     {"rounding_seed", "", "--seed"},
     {"nvme_rate_bytes_per_s", "", "--nvme-rate"}}
);

/// As one writes it to set it.
std::string set_at(std::string_view cpp_name, Face face) {
    std::string const name(option_name(cpp_name, face));
    if (face == Face::program) {
        return name;
    }
    bool const is_switch = cpp_name == "lossy";
    if (face == Face::cpp) {
        return is_switch ? name + " = true" : name;
    }
    return name + (is_switch ? "=True" : "=");
}

}  // namespace

std::string_view option_name(std::string_view cpp_name, Face face) {
    auto const option = std::find_if(kOptions.begin(), kOptions.end(), [&](OptionNames const& o) {
        return o.cpp == cpp_name;
    });
    return option == kOptions.end() ? cpp_name : option->at(face);
}

std::string with_option_names(std::string_view words, Face face) {
    std::string shown;
    while (!words.empty()) {
        std::size_t const begin = words.find('`');
        std::size_t const end = begin == words.npos ? words.npos : words.find('`', begin + 1);
        if (end == words.npos) {
            break;
        }
        shown += words.substr(0, begin);
        shown += set_at(words.substr(begin + 1, end - begin - 1), face);
        words.remove_prefix(end + 1);
    }
    return shown += words;
}

}  // namespace spillway
