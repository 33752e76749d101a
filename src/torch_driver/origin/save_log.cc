// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/save_log.h"

#include "base/units.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace spillway {

namespace {

constexpr std::size_t kMostSaves = 200'000;

bool is_in(std::string const& place, std::string const& module) {
    return module.empty() || place == module ||
           (place.size() > module.size() && place.compare(0, module.size(), module) == 0 &&
            place[module.size()] == '.');
}

std::string why(Save const& save) {
    switch (save.stay) {
        case Stay::may_leave:
            return "kept: it fits in the budget";
        case Stay::no_plain_tensor:
            return "kept: not a plain strided tensor";
        case Stay::python_class:
            return "kept: its class is " + save.python_class +
                   ", which the Function that saved it may read";
        case Stay::other_device:
            return "kept: on another device";
        case Stay::small:
            return "kept: too small to be worth a move";
        case Stay::long_for_tier:
            return "kept: too long for NVMe's staging, and there is no host budget";
        case Stay::foreign_block:
            return "kept: allocated outside the session";
        case Stay::owned:
            return "kept: belongs to the model or the optimizer";
    }
    return "";
}

std::string recipe_words(RecipeWords const* recipe) {
    if (recipe == nullptr) {
        return "";
    }
    return (recipe->is_there ? "; can be made again: " : "; not made again: ") + recipe->words;
}

/// `recipe` is null where it is not known whether there is one.
std::string describe(
    Save const& save, std::map<ValueId, History> const& histories, RecipeWords const* recipe
) {
    auto const at = save.value.valid() ? histories.find(save.value) : histories.end();
    if (at == histories.end()) {
        return why(save) + recipe_words(recipe);
    }
    History const& history = at->second;
    std::string const place = history.pool == Pool::nvme ? "NVMe" : "host";
    if (!history.left) {
        return "stored to " + place + ", but needed again before its memory was reused" +
               recipe_words(recipe);
    }
    std::string text = "moved to " + place;
    if (history.by_recipe) {
        text = history.recomputed > 0 ? "dropped, made again: " : "dropped, can be made again: ";
        text += recipe == nullptr ? "by the operators that made it" : recipe->words;
    }
    if (history.codec) {
        text += " by " + to_text(*history.codec);
    } else if (history.was_refused) {
        text += " without encoding, because its codec cannot represent it";
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
    return history.by_recipe ? text : text + recipe_words(recipe);
}

struct Row {
    std::string place;
    std::string role;
    std::string size;
    std::string fate;
};

std::string table_of(std::vector<Row> const& rows) {
    std::size_t places = 0;
    std::size_t roles = 0;
    for (Row const& row : rows) {
        places = std::max(places, row.place.size());
        roles = std::max(roles, row.role.size());
    }
    constexpr std::size_t kSizes = 10;
    std::string table;
    for (Row const& row : rows) {
        std::string const size(kSizes - std::min(kSizes, row.size.size()), ' ');
        table += row.place + std::string(places - row.place.size() + 1, ' ') + row.role +
                 std::string(roles - row.role.size() + 1, ' ') + size + row.size + "  " + row.fate +
                 "\n";
    }
    return table;
}

}  // namespace

void SaveLog::begin_pass() {
    MutexLock const lock(mutex_);
    saves_.clear();
    recipes_.clear();
}

void SaveLog::add_recipe(ValueId value, RecipeWords words) {
    MutexLock const lock(mutex_);
    if (recipes_.size() >= kMostSaves) {
        recipes_.clear();
    }
    recipes_[value] = std::move(words);
}

std::string const* SaveLog::kept(std::string_view name, std::string const* likely) {
    if (name.empty()) {
        return nullptr;
    }
    if (likely != nullptr && *likely == name) {
        return likely;
    }
    auto const at = operators_.find(name);
    return at == operators_.end() ? &*operators_.emplace(name).first : &*at;
}

void SaveLog::add(Save save, RunningOperators const& by) {
    MutexLock const lock(mutex_);
    // What an operator saves comes in a row.
    save.outer = kept(by.outer, saves_.empty() ? nullptr : saves_.back().outer);
    save.inner = by.inner == by.outer
                     ? save.outer
                     : kept(by.inner, saves_.empty() ? nullptr : saves_.back().inner);
    if (saves_.size() == kMostSaves) {
        saves_.erase(saves_.begin(), saves_.begin() + kMostSaves / 2);
    }
    saves_.push_back(std::move(save));
}

std::string SaveLog::explain(std::string const& module, std::map<ValueId, History> const& histories)
    const {
    MutexLock const lock(mutex_);
    std::vector<std::string> const all = places_of(saves_);
    std::vector<std::string> const roles = roles_of(saves_);
    std::set<ValueId> counted;
    std::vector<Row> rows;
    std::int64_t bytes = 0;
    std::int64_t left_bytes = 0;
    for (std::size_t i = 0; i < saves_.size(); ++i) {
        Save const& save = saves_[i];
        if (!is_in(all[i], module)) {
            continue;
        }
        bool const is_again = save.value.valid() && !counted.insert(save.value).second;
        bytes += is_again ? 0 : save.size_bytes;
        auto const history = histories.find(save.value);
        bool const has_left =
            save.value.valid() && history != histories.end() && history->second.left;
        left_bytes += has_left && !is_again ? save.size_bytes : 0;
        auto const recipe = recipes_.find(save.value);
        rows.push_back(
            {all[i].empty() ? "(model)" : all[i],
             roles[i],
             format_size(save.size_bytes),
             is_again
                 ? "saved before, once in memory"
                 : describe(save, histories, recipe == recipes_.end() ? nullptr : &recipe->second)}
        );
    }
    if (rows.empty()) {
        return module.empty()
                   ? "nothing was saved in the last forward"
                   : "no tensor saved in the last forward is known to belong to '" + module + "'";
    }
    return table_of(rows) + std::to_string(rows.size()) + " saved tensors, " + format_size(bytes) +
           ", of which " + format_size(left_bytes) + " left the device";
}

std::unordered_map<ValueId, std::string> SaveLog::modules() const {
    MutexLock const lock(mutex_);
    std::vector<std::string> const places = places_of(saves_);
    std::unordered_map<ValueId, std::string> modules;
    for (std::size_t i = 0; i < saves_.size(); ++i) {
        if (saves_[i].value.valid()) {
            modules.try_emplace(saves_[i].value, places[i]);
        }
    }
    return modules;
}

std::unordered_map<ValueId, TraceWords> SaveLog::trace_words() const {
    std::unordered_map<ValueId, TraceWords> words;
    for (auto& [value, module] : modules()) {
        words[value].module = module;
    }
    auto const recipes = [this] {
        MutexLock const lock(mutex_);
        return recipes_;
    }();
    for (auto const& [value, recipe] : recipes) {
        words[value].why_no_recipe = recipe.is_there ? "" : recipe.words;
        if (recipe.exact_duration_ns) {
            words[value].recipe_ns = recipe.exact_duration_ns();
        }
    }
    return words;
}

}  // namespace spillway
