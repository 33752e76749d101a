// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/superneurons.h"

#include "policy/transfer_times.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace spillway {

namespace {

/// "AddmmBackward0", "aten::addmm_" -> "addmm".
std::string plain_name(std::string_view producer) {
    std::size_t const colons = producer.rfind("::");
    producer.remove_prefix(colons == std::string_view::npos ? 0 : colons + 2);
    producer = producer.substr(0, producer.find("Backward"));
    std::string name;
    for (char const c : producer) {
        if (c != '_') {
            name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        }
    }
    return name;
}

template <std::size_t N>
bool is_one_of(std::array<std::string_view, N> const& names, std::string const& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

/// What is made again together. A segment has the number of its last value.
class Segments {
  public:
    explicit Segments(std::size_t values) : joined_(values), bytes_(values) {
        std::iota(joined_.begin(), joined_.end(), std::size_t{0});
    }

    [[nodiscard]] std::size_t of(ValueId id) {
        std::size_t at = id.index();
        while (joined_[at] != at) {
            at = joined_[at] = joined_[joined_[at]];
        }
        return at;
    }
    [[nodiscard]] std::int64_t bytes(std::size_t segment) const { return bytes_[segment]; }
    /// `value` and these become one.
    void join(std::set<std::size_t> const& others, std::size_t value, std::int64_t bytes) {
        bytes_[value] = bytes;
        for (std::size_t const other : others) {
            joined_[other] = value;
        }
    }

  private:
    std::vector<std::size_t> joined_;  ///< by segment: what it became; itself: it is one
    std::vector<std::int64_t> bytes_;
};

class SuperneuronsPlan {
  public:
    explicit SuperneuronsPlan(PlanRequest const& request)
        : request_(request), step_(request.trace), made_again_(step_.values.size()) {
        for (TraceValue const& value : request.trace.values) {
            layers_.push_back(superneurons_layer(value.slot.producer));
        }
        bool const has_convolutions =
            std::count(layers_.begin(), layers_.end(), SuperneuronsLayer::convolution) > 0;
        moving_layer_ =
            has_convolutions ? SuperneuronsLayer::convolution : SuperneuronsLayer::product;
    }

    Plan make() {
        choose_made_again();
        need_sources_sooner();
        find_needs();
        Plan plan;
        for (ValueId const id : moved()) {
            plan.fates[step_.slot_of(id)] = {
                .kind = FateKind::move,
                .pool = request_.pool(),
                .leaves = std::nullopt,  // when an allocation fails
                .returns = returning_slot(id)};
        }
        for (ValueId const id : all_made_again()) {
            plan.fates[step_.slot_of(id)] = {.kind = FateKind::recompute};
        }
        keep_the_rest(step_, plan);
        return plan;
    }

  private:
    [[nodiscard]] std::int64_t size_of(std::size_t i) const {
        return request_.trace.values[i].size_bytes;
    }

    /// It was made by a cheap layer, and can be again when backward needs it.
    [[nodiscard]] bool can_be_made_again(std::size_t i) const {
        auto const& recipe = request_.trace.values[i].recipe;
        ValueView const& view = step_.values[i];
        return recipe && layers_[i] == SuperneuronsLayer::cheap && view.can_move() &&
               std::all_of(recipe->sources.begin(), recipe->sources.end(), [&](ValueId id) {
                   ValueView const& source = step_.values[id.index()];
                   return id.index() < i && source.unshared && *source.unshared < *view.needed;
               });
    }

    /// The segments of its sources become one, which it joins if it is still small enough.
    void choose_made_again() {
        std::int64_t const most_bytes = superneurons_peak_bytes(step_);
        Segments segments(step_.values.size());
        for (std::size_t i = 0; i < step_.values.size(); ++i) {
            if (!can_be_made_again(i)) {
                continue;
            }
            std::vector<ValueId> const& sources = request_.trace.values[i].recipe->sources;
            std::set<std::size_t> joined;
            std::int64_t sum = size_of(i);
            for (ValueId const id : sources) {
                if (made_again_[id.index()] && joined.insert(segments.of(id)).second) {
                    sum += segments.bytes(segments.of(id));
                }
            }
            if (sum > most_bytes) {
                continue;  // a checkpoint
            }
            made_again_[i] = true;
            segments.join(joined, i, sum);
            ValueView& view = step_.values[i];
            for (ValueId const id : sources) {  // it goes when they may
                view.unshared = std::max(*view.unshared, *step_.values[id.index()].unshared);
            }
        }
    }

    /// A source is back when what is made of it is needed.
    void need_sources_sooner() {
        for (std::size_t i = step_.values.size(); i-- > 0;) {
            if (!made_again_[i]) {
                continue;
            }
            for (ValueId const id : request_.trace.values[i].recipe->sources) {
                std::optional<std::size_t>& needed = step_.values[id.index()].needed;
                needed = needed ? std::min(*needed, *step_.values[i].needed) : needed;
            }
        }
    }

    [[nodiscard]] std::vector<ValueId> all_made_again() const {
        std::vector<ValueId> values;
        for (std::size_t i = 0; i < made_again_.size(); ++i) {
            if (made_again_[i]) {
                values.push_back(ValueId{static_cast<std::int64_t>(i)});
            }
        }
        return values;
    }

    /// The fewest that have to, the least recently used first.
    [[nodiscard]] std::vector<ValueId> moved() const {
        std::vector<ValueId> order;
        for (std::size_t i = 0; i < step_.values.size(); ++i) {
            if (!made_again_[i] && step_.values[i].can_move()) {
                order.push_back(ValueId{static_cast<std::int64_t>(i)});
            }
        }
        if (request_.budgets.host_bytes == 0 && request_.budgets.nvme_bytes == 0) {
            return {};
        }
        auto const rank = [&](ValueId id) {
            return std::pair(
                layers_[id.index()] != moving_layer_, *step_.values[id.index()].unshared
            );
        };
        std::stable_sort(order.begin(), order.end(), [&](ValueId one, ValueId other) {
            return rank(one) < rank(other);
        });
        return fewest_that_fit(step_, all_made_again(), order, request_.budgets.device_bytes);
    }

    /// At each point the first of the values of moving layers that it needs first.
    void find_needs() {
        for (std::size_t i = 0; i < step_.values.size(); ++i) {
            if (layers_[i] == moving_layer_ && step_.values[i].needed) {
                needs_.emplace(*step_.values[i].needed, ValueId{static_cast<std::int64_t>(i)});
            }
        }
    }

    /// Where backward needs what the checkpoint before it, in the order of backward, made.
    [[nodiscard]] std::optional<Slot> returning_slot(ValueId id) const {
        auto const at = needs_.lower_bound(*step_.values[id.index()].needed);
        return step_.returning_slot(
            id, at == needs_.begin() ? std::nullopt : std::optional(std::prev(at)->second)
        );
    }

    PlanRequest const& request_;
    StepView step_;  ///< with the needs that being made again adds
    std::vector<bool> made_again_;
    std::map<std::size_t, ValueId> needs_;   ///< of moving layers, by point
    std::vector<SuperneuronsLayer> layers_;  ///< by value
    SuperneuronsLayer moving_layer_ = SuperneuronsLayer::convolution;
};

}  // namespace

SuperneuronsLayer superneurons_layer(std::string_view producer) {
    constexpr std::array<std::string_view, 4> kProducts{"mv", "addmv", "linear", "matmul"};
    constexpr std::array<std::string_view, 5> kProductsLike{
        "attention", "addmm", "rnn", "lstm", "gru"};
    constexpr std::array<std::string_view, 3> kJoins{"add", "cat", "stack"};
    std::string const name = plain_name(producer);
    if (name.find("conv") != std::string::npos) {
        return SuperneuronsLayer::convolution;
    }
    bool const is_like_product =
        std::any_of(kProductsLike.begin(), kProductsLike.end(), [&](std::string_view part) {
            return name.find(part) != std::string::npos;
        });
    if (is_one_of(kProducts, name) || name.ends_with("mm") || is_like_product) {
        return SuperneuronsLayer::product;
    }
    return is_one_of(kJoins, name) ? SuperneuronsLayer::join : SuperneuronsLayer::cheap;
}

std::int64_t superneurons_peak_bytes(StepView const& step) {
    std::int64_t most_bytes = 0;
    for (LayerView const& layer : layers_of(step)) {
        std::int64_t bytes = 0;
        for (ValueId const id : layer.values) {
            bytes += step.trace.values[id.index()].size_bytes;
        }
        most_bytes = std::max(most_bytes, bytes);
    }
    return most_bytes;
}

Result<Plan> plan_superneurons(PlanRequest const& request) {
    return SuperneuronsPlan(request).make();
}

}  // namespace spillway
