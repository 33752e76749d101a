// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/lower_bound.h"

#include "policy/step_view.h"
#include "policy/transfer_times.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace spillway {

namespace {

/// Bytes a nanosecond and bytes, of all pools that have a budget together.
struct Ways {
    explicit Ways(AllPools const& pools)
        : out(pools.out_rate / 1e9),
          in(pools.in_rate / 1e9),
          most_bytes(static_cast<double>(pools.capacity_bytes)) {}

    double out;
    double in;
    double most_bytes;
};

/// A value and when it is on the device for sure: until `unshared` and at its uses.
struct Uses {
    std::int64_t size_bytes = 0;
    std::optional<double> remake_ns{};
    std::size_t saved = 0;
    std::size_t unshared = 0;
    std::size_t dropped = 0;
    std::vector<std::size_t> needed{};

    [[nodiscard]] bool is_needed_at(std::size_t point) const {
        return std::binary_search(needed.begin(), needed.end(), point);
    }
    [[nodiscard]] bool is_needed_after(std::size_t point) const {
        return !needed.empty() && needed.back() > point;
    }
    [[nodiscard]] bool may_be_away(std::size_t point) const {
        return unshared < point && point <= dropped && !is_needed_at(point);
    }
    [[nodiscard]] double remake_ns_a_byte() const {
        return *remake_ns / static_cast<double>(size_bytes);
    }
};

/// What may be away at one point.
struct Point {
    double before_ns = 0;  ///< C(p)
    double from_ns = 0;    ///< D(p)
    double first_save_ns = 0;
    double after_last_need_ns = 0;
    double idle_bytes = 0;  ///< of what is never needed again
    double most_moved = 0;  ///< bytes
    double excess = 0;      ///< E, bytes
};

/// A straight piece of recipes(R).
struct Piece {
    double begin_bytes = 0;
    double end_bytes = 0;
    double begin_ns = 0;
    double ns_a_byte = 0;
};

constexpr double kNoPlan = std::numeric_limits<double>::infinity();

class Bound {
  public:
    explicit Bound(PlanRequest const& request)
        : request_(request),
          step_(request.trace),
          ways_(all_pools(request.machine, request.budgets)) {
        std::size_t const points = request.trace.points.size();
        for (TraceValue const& value : request.trace.values) {
            Uses uses{.size_bytes = value.size_bytes, .unshared = points, .dropped = points};
            if (value.recipe) {
                uses.remake_ns = static_cast<double>(value.recipe->duration_ns);
            }
            uses_.push_back(std::move(uses));
        }
        for (std::size_t at = 0; at < points; ++at) {
            TracePoint const& point = request.trace.points[at];
            for (ValueId const id : point.saved) {
                uses_[id.index()].saved = at;
            }
            for (ValueId const id : point.needed) {
                uses_[id.index()].needed.push_back(at);
            }
            for (ValueId const id : point.unshared) {
                uses_[id.index()].unshared = std::min(uses_[id.index()].unshared, at);
            }
            for (ValueId const id : point.dropped) {
                uses_[id.index()].dropped = at;
            }
        }
        sort_by_cost();
    }

    [[nodiscard]] std::int64_t ns() const {
        double least_ns = 0;
        // The simulator lets up to a thousandth of a byte of each transfer be.
        double const rounded = 1 + static_cast<double>(uses_.size()) * 1e-3;
        std::int64_t live_bytes = 0;
        for (std::size_t at = 0; at < request_.trace.points.size(); ++at) {
            TracePoint const& point = request_.trace.points[at];
            for (ValueId const id : point.saved) {
                live_bytes += uses_[id.index()].size_bytes;
            }
            double const excess = static_cast<double>(
                                      point.floor_bytes + live_bytes - request_.budgets.device_bytes
                                  ) -
                                  rounded;
            if (excess > 0 && request_.budgets.device_bytes > 0) {
                least_ns = std::max(least_ns, bound_at(at, excess));
            }
            for (ValueId const id : point.dropped) {
                live_bytes -= uses_[id.index()].size_bytes;
            }
        }
        std::int64_t const compute_ns = step_.begin_ns.back();
        return std::max(compute_ns, static_cast<std::int64_t>(least_ns * (1 - 1e-9)) - 1);
    }

  private:
    /// Those that can be made again, the least time a byte first.
    void sort_by_cost() {
        for (std::size_t i = 0; i < uses_.size(); ++i) {
            if (uses_[i].remake_ns && uses_[i].size_bytes > 0) {
                by_cost_.push_back(i);
            }
        }
        std::stable_sort(by_cost_.begin(), by_cost_.end(), [&](std::size_t one, std::size_t other) {
            return uses_[one].remake_ns_a_byte() < uses_[other].remake_ns_a_byte();
        });
    }

    [[nodiscard]] Point point_at(std::size_t at, double excess) const {
        Point point{.excess = excess};
        point.before_ns = static_cast<double>(step_.begin_ns[at]);
        point.from_ns = static_cast<double>(step_.begin_ns.back() - step_.begin_ns[at]);
        point.first_save_ns = point.before_ns;
        point.after_last_need_ns = point.from_ns;
        double movable = 0;
        for (Uses const& uses : uses_) {
            if (!uses.may_be_away(at)) {
                continue;
            }
            auto const size = static_cast<double>(uses.size_bytes);
            movable += size;
            auto const saved_ns = static_cast<double>(step_.begin_ns[uses.saved]);
            point.first_save_ns = std::min(point.first_save_ns, saved_ns);
            if (!uses.is_needed_after(at)) {
                point.idle_bytes += size;
                continue;
            }
            std::int64_t const left_ns = step_.begin_ns.back() - step_.begin_ns[uses.needed.back()];
            point.after_last_need_ns =
                std::min(point.after_last_need_ns, static_cast<double>(left_ns));
        }
        point.most_moved = std::min(movable, ways_.most_bytes);
        return point;
    }

    /// The pieces of recipes(R) at a point, the cheapest first; what is never needed is made again
    /// for nothing.
    [[nodiscard]] std::vector<Piece> recipes_at(std::size_t at) const {
        std::vector<Piece> pieces{{}};
        for (bool const is_needed : {false, true}) {
            for (std::size_t const i : by_cost_) {
                Uses const& uses = uses_[i];
                if (!uses.may_be_away(at) || uses.is_needed_after(at) != is_needed) {
                    continue;
                }
                Piece& last = pieces.back();
                last.end_bytes = last.begin_bytes + static_cast<double>(uses.size_bytes);
                last.ns_a_byte = is_needed ? uses.remake_ns_a_byte() : 0;
                double const ns = is_needed ? *uses.remake_ns : 0;
                pieces.push_back({last.end_bytes, last.end_bytes, last.begin_ns + ns, 0});
            }
        }
        return pieces;
    }

    /// With R bytes of the piece and before made again, and the rest of the excess moved.
    [[nodiscard]] double ns_with(Point const& point, Piece const& piece, double remade) const {
        double const moved = std::max(0.0, point.excess - remade);
        double const loaded = std::max(0.0, moved - point.idle_bytes);
        double const recipes_ns = piece.begin_ns + (remade - piece.begin_bytes) * piece.ns_a_byte;
        double before_ns = point.before_ns;
        double after_ns = point.from_ns + recipes_ns;
        if (moved > 0) {
            before_ns = std::max(before_ns, point.first_save_ns + moved / ways_.out);
        }
        if (loaded > 0) {
            after_ns = std::max(after_ns, point.after_last_need_ns + loaded / ways_.in);
        }
        return before_ns + after_ns;
    }

    /// The least over M: within a piece the time is a sum of maxima of straight lines in R, so it
    /// is least where the piece begins or ends or where two of these cross. 0: no plan fits.
    [[nodiscard]] double bound_at(std::size_t at, double excess) const {
        Point const point = point_at(at, excess);
        double least_ns = kNoPlan;
        for (Piece const& piece : recipes_at(at)) {
            double const from = std::max(piece.begin_bytes, point.excess - point.most_moved);
            double const to = std::min(piece.end_bytes, point.excess);
            // M / in + after the last need = D(p) + recipes(E - M)
            double const loads_ns = point.after_last_need_ns +
                                    (point.excess - point.idle_bytes) / std::max(ways_.in, 1e-9);
            double const runs_ns =
                point.from_ns + piece.begin_ns - piece.begin_bytes * piece.ns_a_byte;
            double const crossing =
                (loads_ns - runs_ns) / (piece.ns_a_byte + 1 / std::max(ways_.in, 1e-9));
            double const hidden = ways_.out * (point.before_ns - point.first_save_ns);
            for (double const remade :
                 {from, to, crossing, point.excess - hidden, point.excess - point.idle_bytes}) {
                if (from <= to && remade >= from && remade <= to) {
                    least_ns = std::min(least_ns, ns_with(point, piece, remade));
                }
            }
        }
        return least_ns == kNoPlan ? 0 : least_ns;
    }

    PlanRequest const& request_;
    StepView const step_;
    Ways const ways_;
    std::vector<Uses> uses_;
    std::vector<std::size_t> by_cost_;
};

}  // namespace

std::int64_t lower_bound_ns(PlanRequest const& request) {
    return Bound(request).ns();
}

}  // namespace spillway
