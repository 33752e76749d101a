// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Recipes for people: what makes a value again, or why nothing can.

#include "base/units.h"
#include "torch_driver/recompute/recipe.h"

#include <cstdio>
#include <functional>
#include <vector>

namespace spillway {

namespace {

/// Without "aten::".
std::string name_of(OperatorFacts const& facts) {
    std::string const& name = facts.name;
    std::size_t const at = name.find("::");
    return at == std::string::npos ? name : name.substr(at + 2);
}

/// Of a value.
std::string source_words(Content const& source) {
    return source.by == nullptr ? "a saved tensor" : name_of(*source.by) + "'s result";
}

std::string joined(std::vector<std::string> const& words, char const* between) {
    std::string text;
    for (std::string const& word : words) {
        text += (text.empty() ? "" : between) + word;
    }
    return text;
}

/// What wrote it is named where it is known.
std::string maker_words(Content const& content, std::string const& it) {
    std::string const by = content.by == nullptr ? "" : name_of(*content.by);
    switch (content.why) {
        case NoMaker::not_listed:
            return by.empty() ? "an operator that is not PyTorch's made " + it +
                                    ", and allow_recompute does not name it"
                              : by + " made " + it + ", which is not run again";
        case NoMaker::no_generator:
            return by + " made " + it + ", and may draw random numbers without a known generator";
        case NoMaker::under_autocast:
            return by + " made " + it + " under autocast, and is not PyTorch's";
        case NoMaker::special_tensor:
            return it + " is no plain tensor, or made of one";
        case NoMaker::partly_written:
            return "a part of " + it + " was written, and the rest is not known";
        case NoMaker::written_twice:
            return by + " was given twice the memory that it wrote";
        case NoMaker::unseen_write:
            return it + " was written in a way that no operator told";
        case NoMaker::not_planned:
            return it + " was there before, or the plan does not ask for its operator";
        case NoMaker::external:
        case NoMaker::none:
            break;
    }
    return it + " was there before";
}

}  // namespace

std::string Recipe::words(std::function<std::string(Content const&)> const& others) const {
    std::vector<std::string> operators;
    for (Step const& step : steps_) {
        operators.push_back(name_of(step.call->facts));
    }
    std::vector<std::string> sources;
    for (ContentRef const& source : sources_) {
        sources.push_back(source->value.valid() ? source_words(*source) : others(*source));
    }
    char cost[64];
    std::snprintf(
        cost,
        sizeof(cost),
        ", %zu operator%s, %.2g ms",
        steps_.size(),
        steps_.size() == 1 ? "" : "s",
        static_cast<double>(duration_ns()) * 1e-6
    );
    return joined(operators, ", then ") +
           (sources.empty() ? "" : " of " + joined(sources, " and ")) + cost;
}

std::string words_of(
    Recipe::Refused const& refused, Content const& wanted, std::size_t most_calls
) {
    if (refused.why == NoRecipe::too_long) {
        return "more than " + std::to_string(most_calls) + " operators would run";
    }
    Content const& content = *refused.of;
    std::string const it = &content == &wanted ? "it" : "what it is made of";
    if (refused.why == NoRecipe::no_maker) {
        return maker_words(content, it);
    }
    if (content.is_replaced) {
        return it + " was written since";
    }
    return it + (content.was_there ? " is an input, a parameter or another library's, of " +
                                         format_size(content.size_bytes) + ", too large for a copy"
                                   : " was filled in a way that no operator told");
}

}  // namespace spillway
