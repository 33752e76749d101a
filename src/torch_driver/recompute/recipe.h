// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How what a storage held is made again: recorded operators, run once more below autograd, with the
// arguments that they had. Every refusal comes when a recipe is made, never when it runs.
#pragma once

#include "base/result.h"
#include "torch_driver/recorder/call.h"

#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace spillway {

/// Why there is no recipe.
enum class NoRecipe : std::uint8_t {
    no_maker,     ///< of it or of what it is made of: Content::why
    too_long,     ///< more calls than were allowed
    lost_source,  ///< what it is made of was written since, or has no bytes, and no maker
};

/// Thread  `run` from any thread; it changes nothing of the recipe
class Recipe {
  public:
    /// Whether the bytes of a content will be there when the recipe runs.
    using IsSource = std::function<bool(Content const&)>;

    struct Refused {
        NoRecipe why{};
        NoMaker no_maker{};  ///< where that is why
        ContentRef of{};     ///< the content that has none: what is wanted, or what that is made of
    };

    /// How `wanted` is made from sources by at most `most_calls` calls.
    [[nodiscard]] static std::variant<Recipe, Refused> of(
        ContentRef const& wanted, IsSource const& is_source, std::size_t most_calls
    );

    /// What `run` is given, in this order.
    [[nodiscard]] std::vector<ContentRef> const& sources() const { return sources_; }
    [[nodiscard]] std::size_t calls() const { return steps_.size(); }
    /// What its calls took when they ran first.
    [[nodiscard]] std::int64_t duration_ns() const;
    /// The same, and `more_ns`, for later, when the device has passed them, which it waits for;
    /// null: they ran on the host, and the above is exact.
    [[nodiscard]] std::function<std::int64_t()> exact_duration_ns(std::int64_t more_ns) const;
    /// Bytes of all that it makes on the way.
    [[nodiscard]] std::int64_t transient_bytes() const;
    /// The same for recipes that differ in values and, a little, in sizes alone: operators, types,
    /// layouts, threads.
    [[nodiscard]] std::uint64_t signature() const;
    /// "aten::gelu", or "aten::mul, aten::add".
    [[nodiscard]] std::string operators() const;
    /// Whether one is another library's, which its user vouches for.
    [[nodiscard]] bool has_allowed() const;
    void add_operators(OperatorSet& all) const;
    /// "gelu of addmm's result, 1 operator, 0.4 ms". `others` names a source that is no saved
    /// value.
    [[nodiscard]] std::string words(std::function<std::string(Content const&)> const& others) const;

    /// The wanted content's bytes, in a storage of their own.
    ///
    /// Fails   Errc::broken_promise: a source or the result has another size; throws what torch
    ///         throws
    [[nodiscard]] Result<c10::Storage> run(std::vector<c10::Storage> const& sources) const;

  private:
    /// A call, and the contents that are wanted of it.
    struct Step {
        c10::intrusive_ptr<Call> call;
        std::vector<ContentRef> made;
    };
    [[nodiscard]] bool is_source(Content const& content) const;

    /// By content: a handful.
    using Uses = c10::SmallVector<std::pair<Content const*, int>, 8>;
    [[nodiscard]] static int* find(Uses& uses, Content const& content);

    class Builder;
    class Run;

    std::vector<Step> steps_;  ///< each after what it needs
    std::vector<ContentRef> sources_;
    Uses uses_;  ///< as arguments, of what the steps make and of sources
    ContentRef wanted_;
};

/// "addmm made it, which is not run again". A recipe has at most `most_calls` operators.
[[nodiscard]] std::string words_of(
    Recipe::Refused const& refused, Content const& wanted, std::size_t most_calls
);

}  // namespace spillway
