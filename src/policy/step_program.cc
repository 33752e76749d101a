// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/step_program.h"

#include "policy/away_times.h"

#include <algorithm>
#include <utility>

namespace spillway {

namespace {

/// Of what the step computes: by so much a program that lets all leave may cost more than one that
/// lets nothing leave, so that of equals the one that moves less is taken.
constexpr double kTieBreak = 1e-5;

/// An instant at which the program counts. Instant 2 p is the begin of point p, 2 p + 1 its end.
struct Node {
    std::size_t last = 0;   ///< instant: what can leave or is needed up to it
    std::size_t check = 0;  ///< instant: what is away then covers `excess_bytes`
    double excess_bytes = 0;
    double fixed_ns = 0;  ///< that the step computes since the node before
    bool may_wait = false;
    bool is_merged = false;
};

/// Where the entries of values go: rows of one node.
struct NodeRows {
    std::size_t free_to_leave = 0;
    std::size_t back = 0;
    std::size_t gone = 0;
    std::size_t made_again = 0;
};

/// Columns of one value's fate, and of its share that is back at each of `earlier`.
struct FateColumns {
    std::optional<std::size_t> share{};
    std::vector<std::size_t> earlier{};
};

class StepProgramBuilder {
  public:
    StepProgramBuilder(StepView const& step, StepTerms const& terms)
        : step_(step), terms_(terms), points_(step.trace.points) {
        can_move_ = terms.out_rate > 0 && terms.in_rate > 0;
        times_ = terms.is_whole ? times_for_plans(step, terms.device_bytes)
                                : times_for_bounds(step, terms.device_bytes);
    }

    StepProgram build() {
        program_.moved.resize(step_.values.size());
        program_.remade.resize(step_.values.size());
        for (double const excess : times_.excess_bytes) {
            program_.has_to_leave = program_.has_to_leave || excess > 0;
        }
        find_units();
        double const compute = static_cast<double>(step_.begin_ns.back()) / program_.unit_ns;
        program_.program.add({.cost = 1, .lower = compute, .upper = compute});
        if (program_.has_to_leave) {
            find_nodes();
            for (std::size_t k = 0; k < nodes_.size(); ++k) {
                add_node(k);
            }
            for (AwayTime const& away : times_.all) {
                add_value(away);
            }
            for (AwayTime const& away : times_.all) {
                add_sources(away);
            }
        }
        return std::move(program_);
    }

  private:
    /// A value is about 1, and so is the time in which it leaves.
    void find_units() {
        double bytes = 0;
        double remake_ns = 0;
        for (AwayTime const& away : times_.all) {
            bytes += away.bytes;
            remake_ns += away.remake_ns;
        }
        auto const count = static_cast<double>(std::max<std::size_t>(1, times_.all.size()));
        unit_bytes_ = std::max(1.0, bytes / count);
        double const compute_ns = static_cast<double>(step_.begin_ns.back());
        program_.unit_ns =
            can_move_ ? unit_bytes_ / terms_.out_rate * 1e9 : std::max(1.0, compute_ns / count);
        in_per_unit_ = can_move_ ? terms_.in_rate / terms_.out_rate : 0;
        most_bytes_ = bytes / unit_bytes_ + 1;
        // As long as all one after the other.
        most_wait_ = remake_ns / program_.unit_ns + 1 +
                     (can_move_ ? most_bytes_ * (1 + 1 / in_per_unit_) : 0);
    }

    void find_nodes() {
        std::vector<bool> frees(points_.size());
        std::vector<bool> needs(points_.size());
        for (AwayTime const& away : times_.all) {
            frees[away.unshared] = true;
            needs[away.needed] = true;
            for (std::size_t const back : away.earlier) {
                needs[back] = true;
            }
        }
        Node next;
        bool may_return = false;
        for (std::size_t at = 0; at < points_.size(); ++at) {
            next.may_wait = true;
            may_return = may_return || needs[at];
            bool const has_excess = times_.excess_bytes[at] > 0;
            if (has_excess || needs[at]) {
                next.last = next.check = 2 * at;
                next.excess_bytes = std::max(0.0, times_.excess_bytes[at]);
                nodes_.push_back(std::exchange(next, {}));
            }
            next.fixed_ns += static_cast<double>(points_[at].duration_ns);
            // What comes back while it computes must fit, too.
            bool const counts_to_the_end = frees[at] || (may_return && has_excess);
            if (counts_to_the_end && next.fixed_ns > 0) {
                next.last = next.check = 2 * at + 1;
                next.excess_bytes = std::max(0.0, times_.excess_bytes[at]);
                nodes_.push_back(std::exchange(next, {}));
            }
        }
        merge_nodes();
    }

    void merge_nodes() {
        std::size_t const group = (nodes_.size() + terms_.most_nodes - 1) / terms_.most_nodes;
        if (group <= 1) {
            return;
        }
        std::vector<Node> merged;
        for (std::size_t k = 0; k < nodes_.size(); ++k) {
            Node const& node = nodes_[k];
            if (k % group == 0) {
                merged.push_back(node);
                continue;
            }
            Node& into = merged.back();
            into.is_merged = true;
            into.last = node.last;
            into.fixed_ns += node.fixed_ns;
            into.may_wait = into.may_wait || node.may_wait;
            if (node.excess_bytes > into.excess_bytes) {
                into.excess_bytes = node.excess_bytes;
                into.check = node.check;
            }
        }
        nodes_ = std::move(merged);
    }

    std::size_t add_column(double cost, double upper, bool is_whole = false) {
        return program_.program.add({.cost = cost, .upper = upper, .is_whole = is_whole});
    }
    std::size_t add_row(ProgramRow row) {
        program_.program.add(std::move(row));
        return program_.program.rows.size() - 1;
    }
    /// `next` = `before`, which may be none, + what comes and goes.
    std::size_t add_balance(
        std::size_t next, std::optional<std::size_t> before, std::vector<ProgramEntry> changes
    ) {
        changes.push_back({next, -1});
        if (before) {
            changes.push_back({*before, 1});
        }
        return add_row({.lower = 0, .upper = 0, .entries = std::move(changes)});
    }

    /// See Note [The program of a step].
    void add_node(std::size_t k) {
        Node const& node = nodes_[k];
        double const fixed = node.fixed_ns / program_.unit_ns;
        double const most = can_move_ ? most_bytes_ : 0;
        double const capacity = static_cast<double>(terms_.capacity_bytes) / unit_bytes_;
        NodeColumns const now{
            .wait = add_column(1, node.may_wait ? most_wait_ : 0),
            .out = add_column(0, most),
            .in = add_column(0, most),
            .still_to_leave = add_column(0, most),
            .ahead = add_column(0, most),
            .elsewhere = add_column(0, std::min(most, capacity)),
            .gone = add_column(0, most_bytes_),
            .spare = add_column(0, most_wait_)};
        auto const last = [&](std::size_t NodeColumns::*column) {
            return k > 0 ? std::optional(columns_.back().*column) : std::nullopt;
        };
        add_row({.upper = fixed, .entries = {{now.out, 1}, {now.wait, -1}}});
        add_row({.upper = fixed * in_per_unit_, .entries = {{now.in, 1}, {now.wait, -in_per_unit_}}}
        );
        NodeRows rows;
        rows.free_to_leave =
            add_balance(now.still_to_leave, last(&NodeColumns::still_to_leave), {{now.out, -1}});
        rows.back = add_balance(now.ahead, last(&NodeColumns::ahead), {{now.in, 1}});
        add_balance(now.elsewhere, last(&NodeColumns::elsewhere), {{now.out, 1}, {now.in, -1}});
        rows.gone = add_balance(now.gone, last(&NodeColumns::gone), {});
        rows.made_again = add_balance(now.spare, last(&NodeColumns::spare), {{now.wait, 1}});
        if (node.excess_bytes > 0) {
            ProgramRow covers{.lower = node.excess_bytes / unit_bytes_};
            covers.entries = {{now.gone, 1}, {now.elsewhere, 1}};
            if (node.is_merged) {  // what came back in it may have come after its highest
                covers.entries.push_back({now.in, 1});
            }
            add_row(std::move(covers));
        }
        rows_.push_back(rows);
        columns_.push_back(now);
    }

    /// The first node by which the instant is over, or at which what is back at it is back.
    [[nodiscard]] std::size_t node_from(std::size_t instant, std::size_t Node::*at) const {
        auto const found = std::partition_point(
            nodes_.begin(), nodes_.end(), [&](Node const& node) { return node.*at < instant; }
        );
        return static_cast<std::size_t>(found - nodes_.begin());
    }

    void put(std::size_t node, std::size_t NodeRows::*row, std::size_t column, double factor) {
        if (node < nodes_.size()) {
            entries_of(rows_[node].*row).push_back({column, factor});
        }
    }
    std::vector<ProgramEntry>& entries_of(std::size_t row) {
        return program_.program.rows[row].entries;
    }

    /// The columns of a fate, each the share that is back so early, the last one all of it.
    FateColumns add_fate(AwayTime const& away, double cost) {
        FateColumns fate;
        for (std::size_t i = 0; i < away.earlier.size(); ++i) {
            fate.earlier.push_back(add_column(0, 1, true));
        }
        fate.share = add_column(cost, 1, terms_.is_whole);
        for (std::size_t i = 0; i < fate.earlier.size(); ++i) {
            bool const is_last = i + 1 == fate.earlier.size();
            std::size_t const next = is_last ? *fate.share : fate.earlier[i + 1];
            add_row({.upper = 0, .entries = {{fate.earlier[i], 1}, {next, -1}}});
        }
        return fate;
    }

    /// Puts what is back at each of its times into `row`.
    void put_returns(
        AwayTime const& away,
        FateColumns const& fate,
        std::size_t NodeRows::*row,
        std::size_t Node::*at,
        double factor
    ) {
        std::optional<std::size_t> before;
        for (std::size_t i = 0; i <= fate.earlier.size(); ++i) {
            bool const is_last = i == fate.earlier.size();
            std::size_t const column = is_last ? *fate.share : fate.earlier[i];
            std::size_t const node = node_from(2 * (is_last ? away.needed : away.earlier[i]), at);
            put(node, row, column, factor);
            if (before) {
                put(node, row, *before, -factor);
            }
            before = column;
        }
    }

    void add_value(AwayTime const& away) {
        double const bytes = away.bytes / unit_bytes_;
        double const cost =
            terms_.is_whole ? kTieBreak * bytes / most_bytes_ * program_.program.columns[0].lower
                            : 0;
        Fates fates;
        if (can_move_) {
            fates.moved = add_fate(away, cost);
            put(node_from(2 * away.unshared + 2, &Node::last),
                &NodeRows::free_to_leave,
                *fates.moved.share,
                bytes);
            put_returns(away, fates.moved, &NodeRows::back, &Node::last, -bytes);
        }
        if (away.remade && *away.remade < away.needed) {
            fates.remade = add_fate(away, cost);
            put(node_from(2 * *away.remade + 2, &Node::check),
                &NodeRows::gone,
                *fates.remade.share,
                bytes);
            put_returns(away, fates.remade, &NodeRows::gone, &Node::check, -bytes);
            double const remake = away.remake_ns / program_.unit_ns;
            put_returns(away, fates.remade, &NodeRows::made_again, &Node::last, -remake);
        }
        if (fates.moved.share && fates.remade.share) {
            add_row({.upper = 1, .entries = {{*fates.moved.share, 1}, {*fates.remade.share, 1}}});
        }
        program_.moved[away.value] = fates.moved.share;
        program_.remade[away.value] = fates.remade.share;
        fates_.push_back(std::move(fates));
    }

    /// What is made again at each of its times has its sources on the device then.
    void add_sources(AwayTime const& away) {
        FateColumns const& remade = fates_[*times_.place_of[away.value]].remade;
        if (!terms_.is_whole || !remade.share) {
            return;
        }
        for (ValueId const id : step_.trace.values[away.value].recipe->sources) {
            auto const place = times_.place_of[id.index()];
            if (!place || *place >= *times_.place_of[away.value]) {
                continue;
            }
            for (std::size_t i = 0; i <= remade.earlier.size(); ++i) {
                bool const is_last = i == remade.earlier.size();
                add_source(
                    is_last ? *remade.share : remade.earlier[i],
                    is_last ? away.needed : away.earlier[i],
                    *place
                );
            }
        }
    }

    void add_source(std::size_t made, std::size_t at, std::size_t place) {
        AwayTime const& source = times_.all[place];
        if (at <= source.unshared || at >= source.needed) {
            return;
        }
        auto const after = std::upper_bound(source.earlier.begin(), source.earlier.end(), at);
        auto const which = static_cast<std::size_t>(after - source.earlier.begin()) - 1;
        ProgramRow row{.upper = 1, .entries = {{made, 1}}};
        for (FateColumns const& fate : {fates_[place].moved, fates_[place].remade}) {
            if (fate.share) {
                row.entries.push_back({*fate.share, 1});
                row.entries.push_back({fate.earlier[which], -1});
            }
        }
        add_row(std::move(row));
    }

    /// Of one node. Bytes and times in the program's units.
    struct NodeColumns {
        std::size_t wait = 0;  ///< before it
        std::size_t out = 0;   ///< that cross the link since the node before
        std::size_t in = 0;
        std::size_t still_to_leave = 0;  ///< free to, and not gone
        std::size_t ahead = 0;           ///< back, and not needed yet
        std::size_t elsewhere = 0;       ///< out, and not back
        std::size_t gone = 0;            ///< by recipes
        std::size_t spare = 0;           ///< of all waits so far, what recomputes did not take
    };
    struct Fates {
        FateColumns moved{};
        FateColumns remade{};
    };

    StepView const& step_;
    StepTerms const& terms_;
    std::vector<TracePoint> const& points_;
    bool can_move_ = false;
    double unit_bytes_ = 1;
    double in_per_unit_ = 0;  ///< what comes in while 1 goes out
    double most_bytes_ = 0;
    double most_wait_ = 0;
    AwayTimes times_;
    std::vector<Node> nodes_;
    std::vector<NodeColumns> columns_;
    std::vector<NodeRows> rows_;
    std::vector<Fates> fates_;  ///< by place in `times_.all`
    StepProgram program_;
};

}  // namespace

StepProgram step_program(StepView const& step, StepTerms const& terms) {
    return StepProgramBuilder(step, terms).build();
}

}  // namespace spillway
