// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/transfer_times.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace spillway {

namespace {

/// A save or a need of the step, in order of time.
struct Moment {
    std::size_t point = 0;
    std::int64_t at_ns = 0;
    ValueId value;
};

std::int64_t crossed_ns(std::int64_t size_bytes, double rate, std::int64_t latency_ns) {
    return rate <= 0 ? 0 : latency_ns + took_ns(size_bytes, rate);
}

/// Where a point's saves happen: at its begin, and so before it computes.
std::vector<Moment> saves_of(StepView const& step) {
    std::vector<Moment> saves;
    for (std::size_t at = 0; at < step.trace.points.size(); ++at) {
        for (ValueId const id : step.trace.points[at].saved) {
            saves.push_back({at, step.begin_ns[at], id});
        }
    }
    return saves;
}

std::vector<Moment> needs_of(StepView const& step) {
    std::vector<Moment> needs;
    for (std::size_t i = 0; i < step.values.size(); ++i) {
        if (std::optional<std::size_t> const at = step.values[i].needed) {
            needs.push_back({*at, step.begin_ns[*at], ValueId{static_cast<std::int64_t>(i)}});
        }
    }
    std::stable_sort(needs.begin(), needs.end(), [](Moment const& one, Moment const& other) {
        return one.point < other.point;
    });
    return needs;
}

}  // namespace

std::int64_t took_ns(std::int64_t size_bytes, double rate) {
    return rate <= 0 ? 0 : static_cast<std::int64_t>(static_cast<double>(size_bytes) * 1e9 / rate);
}

TransferRates transfer_rates(Machine const& machine, Pool pool) {
    MachineLink const* const out = find_link(machine, Pool::device, pool);
    MachineLink const* const in = find_link(machine, pool, Pool::device);
    return out == nullptr || in == nullptr ? TransferRates()
                                           : TransferRates{
                                                 out->both_ways_rate_bytes_per_s,
                                                 in->both_ways_rate_bytes_per_s,
                                                 std::max(out->latency_ns, in->latency_ns),
                                                 codec_rates(machine)};
}

AllPools all_pools(Machine const& machine, Budgets const& budgets) {
    AllPools all;
    auto const add = [&](std::int64_t bytes, Lane out, Lane in) {
        MachineLink const* const leaves = link_of(machine, out);
        MachineLink const* const returns = link_of(machine, in);
        if (bytes > 0 && leaves != nullptr && returns != nullptr) {
            all.out_rate += leaves->rate_bytes_per_s;
            all.in_rate += returns->rate_bytes_per_s;
            all.capacity_bytes += bytes;
        }
    };
    add(budgets.host_bytes, Lane::copy_out, Lane::copy_in);
    add(budgets.nvme_bytes, Lane::nvme_write, Lane::nvme_read);
    return all;
}

void place_transfers(
    StepView const& step,
    std::vector<ValueId> const& moved,
    TransferRates const& rates,
    Pool pool,
    Plan& plan
) {
    auto const view = [&](ValueId id) -> ValueView const& { return step.values[id.index()]; };
    auto const away = [&](ValueId id) {
        return away_bytes(plan.fates[step.slot_of(id)], step.trace.values[id.index()]);
    };
    auto const coding_ns = [&](ValueId id, double rate) {
        bool const is_coded = !plan.fates[step.slot_of(id)].codec.empty();
        return is_coded ? took_ns(step.trace.values[id.index()].size_bytes, rate) : 0;
    };
    std::vector<Moment> const saves = saves_of(step);
    std::vector<ValueId> order = moved;
    std::stable_sort(order.begin(), order.end(), [&](ValueId one, ValueId other) {
        return *view(one).unshared < *view(other).unshared;
    });
    std::int64_t coder_free_ns = 0;
    std::int64_t link_free_ns = 0;
    for (ValueId const id : order) {
        // It is unshared when its point has ended.
        std::int64_t const free_ns = step.begin_ns[*view(id).unshared + 1];
        std::int64_t const encode_ns = coding_ns(id, rates.codec.encode);
        std::int64_t const coded_ns =
            encode_ns > 0 ? coder_free_ns = std::max(coder_free_ns, free_ns) + encode_ns : free_ns;
        link_free_ns =
            std::max(link_free_ns, coded_ns) + crossed_ns(away(id), rates.out, rates.latency_ns);
        // Saves are in the order of their times and of their values.
        auto const at = std::partition_point(saves.begin(), saves.end(), [&](Moment const& save) {
            return save.at_ns < link_free_ns || save.value.number < id.number;
        });
        Fate& fate = plan.fates[step.slot_of(id)];
        fate = {.kind = FateKind::move, .pool = pool, .codec = std::move(fate.codec)};
        if (at != saves.end()) {
            fate.leaves = step.slot_of(at->value);
        }
    }
    std::vector<Moment> const needs = needs_of(step);
    std::stable_sort(order.begin(), order.end(), [&](ValueId one, ValueId other) {
        return *view(one).needed > *view(other).needed;
    });
    std::int64_t deadline_ns = step.begin_ns.back();
    for (ValueId const id : order) {
        std::int64_t const need_ns =
            step.begin_ns[*view(id).needed] - coding_ns(id, rates.codec.decode);
        deadline_ns =
            std::min(deadline_ns, need_ns) - crossed_ns(away(id), rates.in, rates.latency_ns);
        auto const at = std::partition_point(needs.begin(), needs.end(), [&](Moment const& need) {
            return need.at_ns <= deadline_ns && need.point <= *view(id).needed;
        });
        Moment const& returns = at == needs.begin() ? *at : *std::prev(at);
        plan.fates[step.slot_of(id)].returns = step.slot_of(returns.value);
    }
}

std::optional<ValueId> last_need_by(StepView const& step, std::int64_t at_ns) {
    std::optional<ValueId> last;
    std::size_t last_point = 0;
    for (std::size_t i = 0; i < step.values.size(); ++i) {
        std::optional<std::size_t> const needed = step.values[i].needed;
        if (needed && step.begin_ns[*needed] <= at_ns && *needed >= last_point) {
            last = ValueId{static_cast<std::int64_t>(i)};
            last_point = *needed;
        }
    }
    return last;
}

void keep_the_rest(StepView const& step, Plan& plan) {
    for (TraceValue const& value : step.trace.values) {
        plan.fates.try_emplace(value.slot);
    }
}

std::int64_t peak_without(StepView const& step, std::vector<ValueId> const& moved) {
    std::vector<bool> away(step.values.size());
    for (ValueId const id : moved) {
        away[id.index()] = true;
    }
    std::int64_t held_bytes = 0;
    std::int64_t peak_bytes = 0;
    for (std::size_t at = 0; at < step.trace.points.size(); ++at) {
        TracePoint const& point = step.trace.points[at];
        auto const size = [&](ValueId id) { return step.trace.values[id.index()].size_bytes; };
        auto const is_first_need = [&](ValueId id) {
            return away[id.index()] && step.values[id.index()].needed == at;
        };
        auto const leaves = [&](ValueId id) {
            return away[id.index()] && step.values[id.index()].unshared == at;
        };
        for (ValueId const id : point.needed) {
            held_bytes += is_first_need(id) ? size(id) : 0;
        }
        for (ValueId const id : point.saved) {
            held_bytes += size(id);
        }
        peak_bytes = std::max(peak_bytes, held_bytes + point.floor_bytes);
        for (ValueId const id : point.unshared) {
            held_bytes -= leaves(id) ? size(id) : 0;
        }
        for (ValueId const id : point.dropped) {
            held_bytes -= size(id);
        }
    }
    return peak_bytes;
}

std::vector<ValueId> fewest_that_fit(
    StepView const& step,
    std::vector<ValueId> const& away,
    std::vector<ValueId> order,
    std::int64_t budget
) {
    std::size_t too_few = 0;
    std::size_t enough = order.size();
    while (budget > 0 && too_few < enough) {
        std::size_t const middle = too_few + (enough - too_few) / 2;
        std::vector<ValueId> all = away;
        all.insert(all.end(), order.begin(), order.begin() + static_cast<std::ptrdiff_t>(middle));
        if (peak_without(step, all) <= budget) {
            enough = middle;
        } else {
            too_few = middle + 1;
        }
    }
    order.resize(budget > 0 ? enough : 0);
    return order;
}

}  // namespace spillway
