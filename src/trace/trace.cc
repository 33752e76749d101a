// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/trace.h"

#include <algorithm>
#include <array>

namespace spillway {

namespace {

/// Sums over a whole trace stay far from overflow.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMostNs = std::int64_t{1} << 50;

enum class Life : std::uint8_t { unborn, live, over };

class Validator {
  public:
    explicit Validator(Trace const& trace)
        : trace_(trace), lives_(trace.values.size(), Life::unborn) {}

    Result<void> run() {
        check_values();
        for (at_ = 0; at_ < trace_.points.size() && problem_.ok(); ++at_) {
            check(trace_.points[at_]);
        }
        if (problem_.ok() && next_ != trace_.values.size()) {
            fail("value " + std::to_string(next_) + " is never saved");
        }
        return problem_;
    }

  private:
    void fail(std::string what) {
        if (problem_.ok()) {
            problem_ = Error{Errc::bad_argument, std::move(what), "trace"};
        }
    }
    void fail_here(std::string const& what) { fail("point " + std::to_string(at_) + ": " + what); }

    void check_values() {
        for (std::size_t i = 0; i < trace_.values.size(); ++i) {
            TraceValue const& value = trace_.values[i];
            std::string const who = "value " + std::to_string(i);
            if (value.size_bytes <= 0 || value.size_bytes > kMostBytes) {
                fail(who + " has an impossible size: " + std::to_string(value.size_bytes) + " B");
            }
            if (value.slot.output < 0 || value.slot.occurrence < 0) {
                fail(who + " has an impossible slot");
            }
            if (value.recipe && !is_possible(*value.recipe, i)) {
                fail(who + " has an impossible recipe");
            }
            if (value.recipe && !value.why_no_recipe.empty()) {
                fail(who + " has a recipe, and a reason why it has none");
            }
        }
    }

    [[nodiscard]] bool is_possible(RecipeShape const& recipe, std::size_t of) const {
        bool const has_sources =
            std::all_of(recipe.sources.begin(), recipe.sources.end(), [&](ValueId id) {
                return id.valid() && id.index() < trace_.values.size() && id.index() != of;
            });
        return has_sources && recipe.calls >= 1 && recipe.duration_ns >= 0 &&
               recipe.duration_ns <= kMostNs && recipe.transient_bytes >= 0 &&
               recipe.transient_bytes <= kMostBytes;
    }

    void check(TracePoint const& point) {
        if (point.duration_ns < 0 || point.duration_ns > kMostNs) {
            fail_here("an impossible duration");
        }
        if (point.floor_bytes < 0 || point.floor_bytes > kMostBytes) {
            fail_here("an impossible floor");
        }
        for (ValueId const id : point.needed) {
            check_live(id, "needs");
        }
        for (ValueId const id : point.saved) {
            check_saved(id);
        }
        for (ValueId const id : point.unshared) {
            check_live(id, "lists as unshared");
        }
        for (ValueId const id : point.dropped) {
            if (check_live(id, "drops")) {
                lives_[id.index()] = Life::over;
            }
        }
    }

    void check_saved(ValueId id) {
        if (!id.valid() || id.index() != next_ || next_ == trace_.values.size()) {
            fail_here("saves value " + std::to_string(id.number) + " out of order");
            return;
        }
        lives_[next_] = Life::live;
        ++next_;
    }

    bool check_live(ValueId id, char const* what) {
        bool const live =
            id.valid() && id.index() < lives_.size() && lives_[id.index()] == Life::live;
        if (!live) {
            fail_here(what + (" value " + std::to_string(id.number)) + ", which is not live");
        }
        return live;
    }

    Trace const& trace_;
    std::vector<Life> lives_;
    std::size_t next_ = 0;
    std::size_t at_ = 0;
    Result<void> problem_;
};

}  // namespace

std::string_view name_of(ValueKind kind) {
    constexpr std::array<std::string_view, 5> kNames{
        "activation", "parameter", "gradient", "optimizer", "kv"};
    return kNames[static_cast<std::size_t>(kind)];
}

Result<void> validate(Trace const& trace) {
    return Validator(trace).run();
}

std::int64_t compute_ns_of(Trace const& trace) {
    std::int64_t compute_ns = 0;
    for (TracePoint const& point : trace.points) {
        compute_ns += point.duration_ns;
    }
    return compute_ns;
}

std::int64_t peak_without_moves(Trace const& trace) {
    std::int64_t live_bytes = 0;
    std::int64_t peak_bytes = 0;
    for (TracePoint const& point : trace.points) {
        for (ValueId const id : point.saved) {
            live_bytes += trace.values[id.index()].size_bytes;
        }
        peak_bytes = std::max(peak_bytes, live_bytes + point.floor_bytes);
        for (ValueId const id : point.dropped) {
            live_bytes -= trace.values[id.index()].size_bytes;
        }
    }
    return peak_bytes;
}

}  // namespace spillway
