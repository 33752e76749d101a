// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/saves.h"

#include <cstddef>
#include <optional>
#include <unordered_map>

namespace spillway {

namespace {

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

/// "10" of "h.10" in "h"; empty: not a numbered module right in `outer`.
std::string number_in(std::string const& path, std::string const& outer) {
    std::size_t const begin = outer.empty() ? 0 : outer.size() + 1;
    std::string const part = begin < path.size() ? path.substr(begin) : "";
    return part.find_first_not_of("0123456789") == std::string::npos ? part : "";
}

/// The place of what has no parameter and lies between two modules: what both are in; of two layers
/// of a sequence the first, whose function it most likely is. Between blocks of layers ("h.0.down"
/// and "h.1.norm") it may be the second's input as well.
std::string between(std::string const& before, std::string const& after) {
    std::string const both = common(before, after);
    bool const are_layers = !number_in(before, both).empty() && !number_in(after, both).empty();
    return are_layers ? before : both;
}

std::string text_of(std::string const* name) {
    return name == nullptr ? std::string() : *name;
}

/// Of one node: what it saved.
struct SavedByNode {
    std::string saver;  ///< in words; empty: not known
    bool has_owned = false;
    int without_name = 0;  ///< so far
};

std::unordered_map<std::uint64_t, SavedByNode> by_node(std::vector<Save> const& saves) {
    std::unordered_map<std::uint64_t, SavedByNode> nodes;
    for (Save const& save : saves) {
        SavedByNode& node = nodes[save.node];
        node.has_owned = node.has_owned || save.name != nullptr;
        if (node.saver.empty()) {
            node.saver = operator_words(text_of(save.outer), text_of(save.inner));
        }
    }
    return nodes;
}

/// In words; empty where it is the saver itself, and where there is none.
std::string maker_words(
    Save const& save, std::unordered_map<std::uint64_t, SavedByNode> const& nodes
) {
    if (save.is_output || save.maker.node == nullptr) {
        return "";
    }
    auto const node = nodes.find(save.maker.number);
    bool const is_known = node != nodes.end() && !node->second.saver.empty();
    return is_known ? node->second.saver : operator_of_node(save.maker.name());
}

}  // namespace

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
            : has_both                  ? between(*before, *after[i])
                                        : before.value_or(after[i].value_or(""))
        );
    }
    return all;
}

std::vector<std::string> roles_of(std::vector<Save> const& saves) {
    std::unordered_map<std::uint64_t, SavedByNode> nodes = by_node(saves);
    std::vector<std::string> all;
    for (Save const& save : saves) {
        SavedByNode& node = nodes[save.node];
        SavedFacts facts;
        facts.outer = save.outer == nullptr ? "" : std::string_view(*save.outer);
        facts.inner = save.inner == nullptr ? "" : std::string_view(*save.inner);
        facts.owned = save.name == nullptr ? "" : std::string_view(*save.name);
        facts.maker = maker_words(save, nodes);
        facts.output = save.maker.output;
        facts.is_output = save.is_output;
        facts.is_cast = save.is_cast;
        facts.elements = save.elements;
        facts.has_owned_beside = node.has_owned;
        facts.others_before = node.without_name;
        all.push_back(role_of(facts));
        node.without_name += save.name == nullptr ? 1 : 0;
    }
    return all;
}

}  // namespace spillway
