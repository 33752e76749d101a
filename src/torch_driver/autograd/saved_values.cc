// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/saved_values.h"

#include <algorithm>

namespace spillway {

void SavedValue::add_stream(StreamId stream) {
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
        streams.push_back(stream);
    }
}

bool SavedValue::has(SavedHook const* hook) const {
    return std::find(hooks.begin(), hooks.end(), hook) != hooks.end();
}

std::pair<ValueId const, SavedValue>& SavedValues::add(c10::StorageImpl* storage) {
    ValueId const value{next_value_++};
    value_of_.insert_or_assign(storage, value);
    auto& entry = *entries_.try_emplace(value).first;
    entry.second.storage = storage;
    return entry;
}

SavedValue* SavedValues::find(ValueId value) {
    auto const at = entries_.find(value);
    return at == entries_.end() ? nullptr : &at->second;
}

SavedValue const* SavedValues::find(ValueId value) const {
    auto const at = entries_.find(value);
    return at == entries_.end() ? nullptr : &at->second;
}

std::pair<ValueId const, SavedValue>* SavedValues::in(c10::StorageImpl* storage) {
    auto const at = value_of_.find(storage);
    return at == value_of_.end() ? nullptr : &*entries_.find(at->second);
}

void SavedValues::bind(ValueId value, c10::StorageImpl* storage) {
    entries_.at(value).storage = storage;
    value_of_.insert_or_assign(storage, value);
}

void SavedValues::unbind(ValueId value) {
    SavedValue& entry = entries_.at(value);
    auto const at = value_of_.find(entry.storage);
    if (at != value_of_.end() && at->second == value) {
        value_of_.erase(at);
    }
    entry.storage = nullptr;
}

std::vector<std::pair<std::size_t, ValueId>> SavedValues::ranked(
    std::unordered_map<std::uint64_t, std::size_t> const& rank_of_node
) const {
    std::vector<std::pair<std::size_t, ValueId>> ranked;
    for (auto const& [value, entry] : entries_) {
        std::size_t first = SIZE_MAX;
        for (SavedHook const* const hook : entry.hooks) {
            auto const rank = rank_of_node.find(hook->node_number());
            first = rank == rank_of_node.end() ? first : std::min(first, rank->second);
        }
        if (first != SIZE_MAX) {
            ranked.emplace_back(first, value);
        }
    }
    return ranked;
}

}  // namespace spillway
