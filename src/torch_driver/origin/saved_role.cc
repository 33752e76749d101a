// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/saved_role.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace spillway {

namespace {

constexpr std::string_view kAten = "aten::";

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

/// "aten::_native_x_forward_" -> "x": without what distinguishes torch's variants of one operator.
std::string_view bare(std::string_view name) {
    for (std::string_view const prefix :
         {kAten, std::string_view("_"), std::string_view("native_")}) {
        name.remove_prefix(name.starts_with(prefix) ? prefix.size() : 0);
    }
    for (std::string_view const suffix :
         {std::string_view("_"), std::string_view("_forward"), std::string_view("_with_indices")}) {
        name.remove_suffix(name.ends_with(suffix) ? suffix.size() : 0);
    }
    return name;
}

bool is_product(std::string_view name) {
    constexpr std::array<std::string_view, 8> kProducts{
        "linear", "matmul", "addmm", "mm", "bmm", "baddbmm", "mv", "dot"};
    return name.starts_with("conv") ||
           std::find(kProducts.begin(), kProducts.end(), name) != kProducts.end();
}

/// The outer operator is the inner one, with views, casts and checks around it.
bool is_wrapper(std::string_view outer, std::string_view inner) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kWrappers{
        {{"dropout", "mul"},
         {"square", "pow"},
         {"max_pool1d", "max_pool2d"},
         {"instance_norm", "batch_norm"},
         {"relu6", "hardtanh"}}};
    return outer == inner || (is_product(outer) && is_product(inner)) ||
           (contains(outer, "attention") && contains(inner, "attention")) ||
           std::find(kWrappers.begin(), kWrappers.end(), std::pair(outer, inner)) !=
               kWrappers.end();
}

/// What an operator that is known by its name made for its own backward, beside its inputs.
std::string_view made_inside(SavedFacts const& facts, std::string_view name) {
    if (contains(name, "dropout")) {
        return "mask";
    }
    bool const is_norm = contains(name, "_norm");
    int const inputs = contains(name, "attention")  ? 3  // query, key and value
                       : contains(name, "nll_loss") ? 2  // and the target
                                                    : 1;
    bool const has_statistics = is_norm || inputs > 1;
    bool const comes_late = facts.is_output ? facts.output > 0 : facts.others_before >= inputs;
    return has_statistics && comes_late ? "statistics" : "";
}

/// "input of linear (output of gelu)".
std::string what_it_is(SavedFacts const& facts, std::string const& name) {
    std::string const maker = facts.maker.empty() ? "" : "output of " + facts.maker;
    std::string const cast = facts.is_cast ? "cast of " : "";
    if (!facts.owned.empty()) {
        return cast + std::string(facts.owned);
    }
    if (name.empty()) {
        return maker.empty() ? "made outside the graph" : cast + maker;
    }
    if (facts.elements != SavedElements::numbers) {
        return (facts.elements == SavedElements::booleans ? "mask of " : "indices of ") + name;
    }
    std::string_view const inside = made_inside(facts, name);
    if (!inside.empty() && (facts.is_output || maker.empty())) {
        return std::string(inside) + " of " + name;
    }
    if (facts.is_output) {
        return (facts.output == 0 ? "output of " : "output " + std::to_string(facts.output) + " of "
               ) +
               name;
    }
    if (maker.empty() && !contains(facts.inner, "::")) {  // a Function's: input or made in it
        return "tensor of " + name;
    }
    std::string const from = maker.empty() ? "" : " (" + cast + maker + ")";
    return "input of " + name + from;
}

std::string what_it_is_for(SavedFacts const& facts, std::string const& name) {
    if (name.empty()) {
        return "backward";
    }
    bool const is_owned = !facts.owned.empty();
    if (!is_product(name)) {
        return is_owned ? "the backward of " + name : "its backward";
    }
    if (is_owned) {
        return "the gradient of " + name + "'s input";
    }
    bool const is_layer = name == "linear" || name.starts_with("conv");
    return is_layer || facts.has_owned_beside ? "its weight's gradient"
                                              : "its other operand's gradient";
}

}  // namespace

std::string operator_of_node(std::string_view node) {
    std::string_view name = node;
    while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0) {
        name.remove_suffix(1);
    }
    constexpr std::string_view kBackward = "Backward";
    if (!name.ends_with(kBackward) || name.size() == kBackward.size()) {
        return std::string(node);
    }
    name.remove_suffix(kBackward.size());
    std::string words;
    for (char const c : name) {
        bool const is_upper = std::isupper(static_cast<unsigned char>(c)) != 0;
        words += is_upper && !words.empty() ? "_" : "";
        words += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return std::string(bare(words));
}

std::string operator_words(std::string_view outer, std::string_view inner) {
    std::string_view const own = bare(inner);
    std::string_view const around = bare(outer);
    if (around.empty() || around == own) {
        return std::string(own);
    }
    return is_wrapper(around, own) ? std::string(around)
                                   : std::string(own) + " in " + std::string(around);
}

std::string role_of(SavedFacts const& facts) {
    std::string const name = operator_words(facts.outer, facts.inner);
    return what_it_is(facts, name) + ", saved for " + what_it_is_for(facts, name);
}

}  // namespace spillway
