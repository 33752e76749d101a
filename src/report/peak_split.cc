// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/peak_split.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace spillway {

namespace {

bool is_number(std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

/// "layers.0.fc" -> "layers.*.fc".
std::string without_numbers(std::string_view path) {
    std::string folded;
    while (true) {
        std::string_view const part = path.substr(0, path.find('.'));
        folded += is_number(part) ? "*" : part;
        if (part.size() == path.size()) {
            return folded;
        }
        folded += '.';
        path.remove_prefix(part.size() + 1);
    }
}

std::vector<ModuleBytes> sorted(std::map<std::string, std::int64_t> const& sums) {
    std::vector<ModuleBytes> rows;
    for (auto const& [module, size_bytes] : sums) {
        rows.push_back({module, size_bytes});
    }
    std::stable_sort(
        rows.begin(),
        rows.end(),
        [](ModuleBytes const& one, ModuleBytes const& other) {
            return one.size_bytes > other.size_bytes;
        }
    );
    return rows;
}

}  // namespace

std::int64_t PeakSplit::saved_bytes() const {
    std::int64_t sum = 0;
    for (ModuleBytes const& row : saved) {
        sum += row.size_bytes;
    }
    return sum;
}

std::vector<ModuleBytes> largest_modules(std::vector<ModuleBytes> const& all) {
    std::map<std::string, std::int64_t> sums;
    std::map<std::string, std::int64_t> folded;
    for (ModuleBytes const& one : all) {
        sums[one.module] += one.size_bytes;
        folded[without_numbers(one.module)] += one.size_bytes;
    }
    std::vector<ModuleBytes> rows = sorted(sums.size() > kMostModules ? folded : sums);
    if (rows.size() > kMostModules) {
        ModuleBytes others{kOtherModules};
        for (std::size_t i = kMostModules; i < rows.size(); ++i) {
            others.size_bytes += rows[i].size_bytes;
        }
        rows.resize(kMostModules);
        rows.push_back(others);
    }
    return rows;
}

void fit_to_peak(PeakSplit& split, std::int64_t peak_bytes) {
    std::vector<std::int64_t*> parts{
        &split.parameter_bytes,
        &split.buffer_bytes,
        &split.optimizer_state_bytes,
        &split.gradient_bytes};
    for (ModuleBytes& row : split.saved) {
        parts.push_back(&row.size_bytes);
    }
    parts.push_back(&split.read_ahead_bytes);
    std::int64_t left_bytes = peak_bytes;
    for (std::int64_t* const part : parts) {
        *part = std::clamp<std::int64_t>(*part, 0, left_bytes);
        left_bytes -= *part;
    }
    split.other_bytes = left_bytes;
    std::erase_if(split.saved, [](ModuleBytes const& row) { return row.size_bytes == 0; });
}

}  // namespace spillway
