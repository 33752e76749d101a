// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/save_log.h"

#include "base/units.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace spillway {

namespace {

constexpr std::size_t kMostSaves = 200'000;

/// "a.b.weight" -> "a.b"; "weight" -> "".
std::string module_of(std::string const& name) {
    std::size_t const dot = name.rfind('.');
    return dot == std::string::npos ? "" : name.substr(0, dot);
}

/// The module that two modules are both in: "a.b.c", "a.b.d.e" -> "a.b".
std::string common(std::string const& one, std::string const& other) {
    std::size_t same = 0;
    std::size_t end = 0;  // of the last whole part that they share
    while (same < one.size() && same < other.size() && one[same] == other[same]) {
        end = one[same] == '.' ? same : end;
        ++same;
    }
    bool const one_ends = same == one.size() && (same == other.size() || other[same] == '.');
    bool const other_ends = same == other.size() && same < one.size() && one[same] == '.';
    return one.substr(0, one_ends || other_ends ? same : end);
}

bool is_in(std::string const& place, std::string const& module) {
    return module.empty() || place == module ||
           (place.size() > module.size() && place.compare(0, module.size(), module) == 0 &&
            place[module.size()] == '.');
}

std::string_view why(Stay stay) {
    switch (stay) {
        case Stay::may_leave:
            return "kept: the budget did not ask for it";
        case Stay::no_plain_tensor:
            return "kept: no plain strided tensor";
        case Stay::other_device:
            return "kept: on another device";
        case Stay::small:
            return "kept: too small to be worth a move";
        case Stay::long_for_tier:
            return "kept: too long for NVMe's staging, and there is no host budget";
        case Stay::foreign_block:
            return "kept: its memory is not the session's";
        case Stay::owned:
            return "kept: it is the model's or the optimizer's";
    }
    return "";
}

std::string told(Save const& save, std::map<ValueId, History> const& histories) {
    auto const at = save.value.valid() ? histories.find(save.value) : histories.end();
    if (at == histories.end()) {
        return std::string(why(save.stay));
    }
    History const& history = at->second;
    std::string const place = history.pool == Pool::nvme ? "NVMe" : "host";
    if (!history.left) {
        return "stored to " + place + ", and needed before its room was";
    }
    std::string text = "moved to " + place;
    if (history.codec) {
        text += " by " + to_text(*history.codec);
    } else if (history.was_refused) {
        text += " as it is, which its codec could not give back";
    }
    if (!history.came_free) {
        text += ", which freed nothing: something else holds it";
    }
    if (history.returned > 0) {
        text += history.returned == 1
                    ? ", came back"
                    : ", came back " + std::to_string(history.returned) + " times";
    }
    if (history.waited_ns > 0) {
        char waited[48];
        std::snprintf(
            waited, sizeof(waited), ", waited %.1f ms", static_cast<double>(history.waited_ns) / 1e6
        );
        text += waited;
    }
    return text;
}

/// Of each save, in their order, the module that it is in.
std::vector<std::string> places_of(std::vector<Save> const& saves) {
    auto const name_of = [](Save const& save) {
        return save.name == nullptr ? std::string() : *save.name;
    };
    std::unordered_map<std::uint64_t, std::string> module_of_node;
    std::vector<std::optional<std::string>> after(saves.size());
    std::optional<std::string> next;
    for (std::size_t i = saves.size(); i-- > 0;) {
        if (!name_of(saves[i]).empty()) {
            next = module_of(name_of(saves[i]));
            module_of_node[saves[i].node] = *next;
        }
        after[i] = next;
    }
    std::vector<std::string> all;
    std::optional<std::string> before;
    for (std::size_t i = 0; i < saves.size(); ++i) {
        if (!name_of(saves[i]).empty()) {
            before = module_of(name_of(saves[i]));
        }
        auto const own = module_of_node.find(saves[i].node);
        bool const has_both = before && after[i];
        all.push_back(
            own != module_of_node.end() ? own->second
            : has_both                  ? common(*before, *after[i])
                                        : before.value_or(after[i].value_or(""))
        );
    }
    return all;
}

}  // namespace

void SaveLog::begin_pass() {
    std::lock_guard const lock(mutex_);
    saves_.clear();
}

void SaveLog::add(Save const& save) {
    std::lock_guard const lock(mutex_);
    if (saves_.size() == kMostSaves) {
        saves_.erase(saves_.begin(), saves_.begin() + kMostSaves / 2);
    }
    saves_.push_back(save);
}

std::string SaveLog::explain(std::string const& module, std::map<ValueId, History> const& histories)
    const {
    std::lock_guard const lock(mutex_);
    std::vector<std::string> const all = places_of(saves_);
    std::set<ValueId> counted;
    std::string table;
    std::int64_t saves = 0;
    std::int64_t bytes = 0;
    std::int64_t left_bytes = 0;
    for (std::size_t i = 0; i < saves_.size(); ++i) {
        Save const& save = saves_[i];
        if (!is_in(all[i], module)) {
            continue;
        }
        ++saves;
        bool const is_again = save.value.valid() && !counted.insert(save.value).second;
        bytes += is_again ? 0 : save.size_bytes;
        auto const history = histories.find(save.value);
        bool const has_left =
            save.value.valid() && history != histories.end() && history->second.left;
        left_bytes += has_left && !is_again ? save.size_bytes : 0;
        std::string const what = save.name != nullptr ? *save.name : save.origin.name();
        std::string const size = format_size(save.size_bytes);
        char line[512];
        std::snprintf(
            line,
            sizeof(line),
            "%-32.64s %-28.64s %10s  %s\n",
            all[i].empty() ? "(model)" : all[i].c_str(),
            what.c_str(),
            size.c_str(),
            is_again ? "saved before, once in memory" : told(save, histories).c_str()
        );
        table += line;
    }
    if (saves == 0) {
        return (module.empty() ? "nothing" : "'" + module + "': nothing that") +
               " was saved in the last forward is known to be of it";
    }
    return table + std::to_string(saves) + " saved tensors, " + format_size(bytes) + ", of which " +
           format_size(left_bytes) + " left the device";
}

}  // namespace spillway
