// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/away_times.h"

#include <algorithm>
#include <utility>

namespace spillway {

namespace {

/// Points at which a value may have to be back for what is made of it: a choice, so that long rows
/// of recipes make no program of the square of their number.
constexpr std::size_t kEarlierReturns = 4;

std::int64_t size_of(StepView const& step, ValueId id) {
    return step.trace.values[id.index()].size_bytes;
}

void add(AwayTimes& times, AwayTime away) {
    times.place_of[away.value] = times.all.size();
    times.all.push_back(std::move(away));
}

/// In order, each once; of too many the first and some of the others.
void thin_out(std::vector<std::size_t>& points) {
    std::sort(points.begin(), points.end());
    points.erase(std::unique(points.begin(), points.end()), points.end());
    if (points.size() <= kEarlierReturns) {
        return;
    }
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < kEarlierReturns; ++i) {
        kept.push_back(points[i * points.size() / kEarlierReturns]);
    }
    points = std::move(kept);
}

/// Of sources that were saved before what is made of them; recipes have no others.
void trace_sources(StepView const& step, AwayTimes& times) {
    for (std::size_t at = times.all.size(); at-- > 0;) {
        AwayTime& away = times.all[at];
        thin_out(away.earlier);
        if (!away.remade) {
            continue;
        }
        std::vector<std::size_t> backs = away.earlier;
        backs.push_back(away.needed);
        for (ValueId const id : step.trace.values[away.value].recipe->sources) {
            std::optional<std::size_t> const place = times.place_of[id.index()];
            if (!place || *place >= at) {
                continue;
            }
            AwayTime& source = times.all[*place];
            for (std::size_t const back : backs) {
                if (back > source.unshared && back < source.needed) {
                    source.earlier.push_back(back);
                }
            }
        }
    }
}

/// By point; each of `uncounted` is a value and the point at whose end it no longer counts.
std::vector<double> excess_of(
    StepView const& step,
    std::int64_t device_bytes,
    std::vector<std::vector<ValueId>> const& uncounted
) {
    std::vector<TracePoint> const& points = step.trace.points;
    std::vector<double> excess;
    std::vector<bool> counts(step.values.size(), false);
    std::int64_t held = 0;
    auto const stop_counting = [&](ValueId id) {
        held -= counts[id.index()] ? size_of(step, id) : 0;
        counts[id.index()] = false;
    };
    for (std::size_t at = 0; at < points.size(); ++at) {
        for (ValueId const id : points[at].saved) {
            counts[id.index()] = true;
            held += size_of(step, id);
        }
        excess.push_back(static_cast<double>(held + points[at].floor_bytes - device_bytes));
        std::for_each(uncounted[at].begin(), uncounted[at].end(), stop_counting);
        std::for_each(points[at].dropped.begin(), points[at].dropped.end(), stop_counting);
    }
    return excess;
}

/// What happens to a value from where it is unshared on.
struct Uses {
    std::optional<std::size_t> unshared{};
    std::optional<std::size_t> needed{};
    std::optional<std::size_t> unshared_anew{};
};

std::vector<Uses> uses_of(StepView const& step) {
    std::vector<Uses> all(step.values.size());
    for (std::size_t at = 0; at < step.trace.points.size(); ++at) {
        for (ValueId const id : step.trace.points[at].needed) {
            Uses& uses = all[id.index()];
            uses.needed = uses.unshared && !uses.needed ? at : uses.needed;
        }
        for (ValueId const id : step.trace.points[at].unshared) {
            Uses& uses = all[id.index()];
            uses.unshared_anew = uses.needed && !uses.unshared_anew ? at : uses.unshared_anew;
            uses.unshared = uses.unshared ? uses.unshared : at;
        }
    }
    return all;
}

}  // namespace

AwayTimes times_for_plans(StepView const& step, std::int64_t device_bytes) {
    AwayTimes times;
    times.place_of.resize(step.values.size());
    for (std::size_t i = 0; i < step.values.size(); ++i) {
        ValueView const& view = step.values[i];
        if (!view.can_move()) {
            continue;
        }
        ValueId const id{static_cast<std::int64_t>(i)};
        auto const& recipe = step.trace.values[i].recipe;
        add(times,
            {.value = i,
             .bytes = static_cast<double>(size_of(step, id)),
             .unshared = *view.unshared,
             .needed = *view.needed,
             .remade = gone_by_recipe(step, id),
             .remake_ns = recipe ? static_cast<double>(recipe->duration_ns) : 0});
    }
    trace_sources(step, times);
    times.excess_bytes =
        excess_of(step, device_bytes, std::vector<std::vector<ValueId>>(step.trace.points.size()));
    return times;
}

AwayTimes times_for_bounds(StepView const& step, std::int64_t device_bytes) {
    AwayTimes times;
    times.place_of.resize(step.values.size());
    std::vector<std::vector<ValueId>> uncounted(step.trace.points.size());
    std::vector<Uses> const all = uses_of(step);
    for (std::size_t i = 0; i < all.size(); ++i) {
        Uses const& uses = all[i];
        ValueId const id{static_cast<std::int64_t>(i)};
        if (uses.unshared && !uses.needed) {
            uncounted[*uses.unshared].push_back(id);
        } else if (uses.unshared_anew) {
            uncounted[*uses.unshared_anew].push_back(id);
        }
        if (!uses.needed) {
            continue;
        }
        auto const& recipe = step.trace.values[i].recipe;
        add(times,
            {.value = i,
             .bytes = static_cast<double>(size_of(step, id)),
             .unshared = *uses.unshared,
             .needed = *uses.needed,
             .remade = recipe ? uses.unshared : std::nullopt,
             .remake_ns = recipe ? static_cast<double>(recipe->duration_ns) : 0});
    }
    times.excess_bytes = excess_of(step, device_bytes, uncounted);
    return times;
}

std::optional<std::size_t> gone_by_recipe(StepView const& step, ValueId id) {
    auto const& recipe = step.trace.values[id.index()].recipe;
    std::optional<std::size_t> at = step.values[id.index()].unshared;
    if (!recipe || !at) {
        return std::nullopt;
    }
    for (ValueId const source : recipe->sources) {
        std::optional<std::size_t> const of_source = step.values[source.index()].unshared;
        if (!of_source) {
            return std::nullopt;
        }
        at = std::max(at, of_source);
    }
    return at < step.values[id.index()].needed ? at : std::nullopt;
}

}  // namespace spillway
