// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The generator of random cases, and the proof that what it makes is valid and varied.

#include "fuzz/random_case.h"

#include "fuzz/fuzz_main.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <vector>

namespace spillway::fuzz {

namespace {

constexpr std::int64_t kPage = 4096;

/// One recorded graph while the program is made.
struct Graph {
    std::vector<ValueId> values;  ///< live, in the order in which they were saved
    std::vector<ValueId> shared;  ///< of these: the program holds them too, for now
    std::int64_t to_save = 0;
    bool retained = false;
};

/// Makes points one by one; each is something that a program could do next.
class TraceMaker {
  public:
    explicit TraceMaker(Dice& dice) : dice_(dice) {}

    Trace make() {
        trace_.name = "random";
        floor_bytes_ = dice_.in(0, 32) * kPage;
        std::int64_t const graphs = dice_.in(1, 3);
        for (std::int64_t i = 0; i < graphs; ++i) {
            graphs_.push_back({{}, {}, dice_.in(1, 20), dice_.percent(20)});
        }
        std::int64_t const points = dice_.in(6, 24) * graphs;
        for (std::int64_t i = 0; i < points; ++i) {
            add_point(graphs_[static_cast<std::size_t>(dice_.in(0, graphs - 1))]);
        }
        return std::move(trace_);
    }

  private:
    void add_point(Graph& graph) {
        TracePoint point;
        point.duration_ns = dice_.percent(10) ? 0 : dice_.in(1, 2'000'000);
        std::int64_t const spread = dice_.percent(3) ? 96 : 12;
        point.floor_bytes = std::max<std::int64_t>(0, floor_bytes_ + dice_.in(-8, spread) * kPage);
        if (graph.to_save > 0) {
            point.phase = Phase::forward;
            forward(graph, point);
        } else if (dice_.percent(4)) {
            point.phase = Phase::forward;
            drop_all(graph, point);
        } else {
            point.phase = Phase::backward;
            backward(graph, point);
        }
        become_unshared(graph, point);
        trace_.points.push_back(std::move(point));
    }

    void forward(Graph& graph, TracePoint& point) {
        std::int64_t const count = std::min<std::int64_t>(graph.to_save, dice_.in(0, 3));
        for (std::int64_t i = 0; i < count; ++i) {
            ValueId const id{static_cast<std::int64_t>(trace_.values.size())};
            TraceValue value;
            value.slot = {"op" + std::to_string(dice_.in(0, 9)), 0, static_cast<int>(id.number)};
            value.size_bytes = dice_.percent(10) ? dice_.in(1, kPage) : dice_.in(1, 64) * kPage;
            trace_.values.push_back(value);
            point.saved.push_back(id);
            graph.values.push_back(id);
            graph.shared.push_back(id);
        }
        graph.to_save -= count;
        if (dice_.percent(1)) {
            drop_all(graph, point);  // an exception in mid-forward
            graph.to_save = 0;
        }
    }

    void backward(Graph& graph, TracePoint& point) {
        std::int64_t const count =
            std::min<std::int64_t>(static_cast<std::int64_t>(graph.values.size()), dice_.in(0, 3));
        std::size_t const size = graph.values.size();
        for (std::int64_t i = 0; i < count; ++i) {
            std::size_t const back = dice_.percent(85)
                                         ? static_cast<std::size_t>(i) + 1
                                         : static_cast<std::size_t>(dice_.in(1, count)) + size / 2;
            ValueId const id = graph.values[size - std::min(back, size)];
            point.needed.push_back(id);
            graph.shared.push_back(id);
        }
        if (graph.retained && dice_.percent(70)) {
            return;  // retain_graph: needed again later
        }
        for (ValueId const id : point.needed) {
            if (dice_.percent(90)) {
                drop(graph, id, point);
            }
        }
    }

    void drop(Graph& graph, ValueId id, TracePoint& point) {
        auto const at = std::find(graph.values.begin(), graph.values.end(), id);
        if (at != graph.values.end()) {
            graph.values.erase(at);
            std::erase(graph.shared, id);
            point.dropped.push_back(id);
        }
    }

    void drop_all(Graph& graph, TracePoint& point) {
        while (!graph.values.empty()) {
            drop(graph, graph.values.front(), point);
        }
    }

    void become_unshared(Graph& graph, TracePoint& point) {
        for (ValueId const id : std::vector<ValueId>(graph.shared)) {
            if (dice_.percent(60)) {
                std::erase(graph.shared, id);
                point.unshared.push_back(id);
            }
        }
    }

    Dice& dice_;
    Trace trace_;
    std::vector<Graph> graphs_;
    std::int64_t floor_bytes_ = 0;
};

ExecutorOptions random_options(Dice& dice, Trace const& trace) {
    ExecutorOptions options;
    std::int64_t const peak_bytes = std::max(peak_without_moves(trace), kPage);
    options.chooser = static_cast<ChooserKind>(dice.percent(5) ? 1 : dice.in(0, 1) * 2);
    options.device_bytes = dice.percent(4) ? 0 : peak_bytes * dice.in(30, 105) / 100;
    options.host_bytes = dice.percent(50) ? 0 : peak_bytes * dice.in(1, 120) / 100;
    options.nvme_bytes = dice.percent(15) ? 0 : peak_bytes * dice.in(5, 400) / 100;
    options.nvme_value_bytes =
        dice.percent(75) ? 0 : std::max<std::int64_t>(peak_bytes / dice.in(2, 40), 1);
    return options;
}

SimulatorOptions random_how(Dice& dice) {
    SimulatorOptions how;
    how.steps = dice.percent(25) ? 2 : 1;
    how.order = static_cast<OrderHint>(dice.in(0, 2));
    how.settle_at_waits = dice.percent(50);
    how.seed = static_cast<std::uint64_t>(dice.in(0, 1'000'000));
    how.jitter = static_cast<double>(dice.in(0, 9)) / 10.0;
    if (dice.percent(25)) {
        how.fail_store = dice.percent(60) ? dice.in(1, 20) : 0;
        how.fail_load = dice.percent(40) ? dice.in(1, 20) : 0;
        how.fault_is_full = dice.percent(50);
        for (std::size_t pool = 1; pool < kPools; ++pool) {
            how.full_at_bytes[pool] = dice.percent(30) ? dice.in(0, 400) * kPage : -1;
        }
    }
    how.write_every = dice.percent(30) ? dice.in(1, 8) : 0;
    return how;
}

/// In half of the cases some values can be made again, from whatever was saved before.
void draw_recipes(Dice& dice, Case& made) {
    if (dice.percent(50)) {
        return;
    }
    Trace& trace = made.trace;
    SimulatorOptions& how = made.how;
    if (dice.percent(40)) {  // else most values have other fates
        made.options.chooser = ChooserKind::online;
    }
    if (dice.percent(50)) {
        how.rule.clear();
    }
    if (dice.percent(70)) {  // many small values, of which several come back at once
        for (TraceValue& value : trace.values) {
            value.size_bytes = dice.in(1, 6) * kPage;
        }
        made.options.device_bytes =
            std::max(peak_without_moves(trace), kPage) * dice.in(50, 95) / 100;
    }
    random_recipes(dice, trace);
    how.write_every = dice.percent(50) ? dice.in(1, 3) : how.write_every;
    how.recompute_before_moves = dice.percent(70);
    how.transient_percent = dice.percent(50) ? 200 : dice.in(50, 200);
    how.no_recipe = dice.percent(10) ? dice.in(1, 6) : 0;
    how.fail_recompute = dice.percent(5) ? dice.in(1, 6) : 0;
}

/// A rule that knows some of the values; codes that shrink much, hardly or not at all.
void draw_rule(Dice& dice, Trace const& trace, SimulatorOptions& how) {
    std::int64_t const share = dice.percent(40) ? 0 : dice.in(20, 100);
    std::int64_t const codes = dice.in(0, 100);
    for (TraceValue const& value : trace.values) {
        if (!dice.percent(share)) {
            continue;
        }
        RuleAnswer& answer = how.rule[value.slot];
        answer.advice = static_cast<Advice>(dice.percent(10) ? 0 : dice.in(1, 3));
        if (dice.percent(codes)) {
            std::int64_t const percent = dice.percent(90) ? dice.in(5, 60) : dice.in(90, 110);
            answer.encoded_bytes = std::max<std::int64_t>(1, value.size_bytes * percent / 100);
        }
    }
    how.raw_every = dice.percent(25) ? dice.in(1, 12) : 0;
    how.fail_decode = how.fail_load > 0 ? dice.in(0, 12) : 0;
    if (dice.percent(80)) {
        how.encode_rate_bytes_per_s = static_cast<double>(dice.in(1, 5'000) * 1'000'000);
        how.decode_rate_bytes_per_s = static_cast<double>(dice.in(1, 5'000) * 1'000'000);
    }
}

}  // namespace

Trace random_trace(Dice& dice) {
    return TraceMaker(dice).make();
}

void random_recipes(Dice& dice, Trace& trace) {
    std::int64_t const share = dice.in(50, 100);
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
        if (!dice.percent(share)) {
            continue;
        }
        RecipeShape recipe;
        recipe.calls = dice.in(1, 4);
        recipe.duration_ns = dice.percent(10) ? 0 : dice.in(1, 500'000);
        recipe.transient_bytes = dice.percent(20) ? 0 : dice.in(1, 12) * kPage;
        std::int64_t const sources = i == 0 ? 0 : dice.in(0, 3);
        for (std::int64_t k = 0; k < sources; ++k) {
            std::int64_t const back = dice.percent(90) ? 4 : static_cast<std::int64_t>(i);
            ValueId const source{
                static_cast<std::int64_t>(i) -
                dice.in(1, std::min(back, static_cast<std::int64_t>(i)))};
            if (std::find(recipe.sources.begin(), recipe.sources.end(), source) ==
                recipe.sources.end()) {
                recipe.sources.push_back(source);
            }
        }
        trace.values[i].recipe = std::move(recipe);
    }
}

Machine random_machine(Dice& dice) {
    Machine machine;
    machine.name = "random";
    for (Pool const pool : {Pool::device, Pool::host, Pool::nvme}) {
        machine.tiers.push_back({std::string(name_of(pool)), pool, std::int64_t{1} << 40});
    }
    for (Pool const pool : {Pool::host, Pool::nvme}) {
        for (bool const out : {true, false}) {
            MachineLink link;
            link.from = out ? Pool::device : pool;
            link.to = out ? pool : Pool::device;
            link.rate_bytes_per_s = static_cast<double>(dice.in(1, 5'000) * 1'000'000);
            link.both_ways_rate_bytes_per_s =
                link.rate_bytes_per_s * static_cast<double>(dice.in(40, 100)) / 100.0;
            link.latency_ns = dice.percent(50) ? 0 : dice.in(1, 200'000);
            link.group = dice.percent(50) ? "bus" : "";
            machine.links.push_back(link);
        }
    }
    machine.groups.push_back({"bus", static_cast<double>(dice.in(100, 5'000) * 1'000'000)});
    return machine;
}

Plan random_plan(Dice& dice, Trace const& trace) {
    Plan plan;
    Slot const unknown{"no such operator", 1, 2};
    auto const any_slot = [&]() -> Slot {
        std::int64_t const last = std::ssize(trace.values) - 1;
        return last < 0 || dice.percent(5)
                   ? unknown
                   : trace.values[static_cast<std::size_t>(dice.in(0, last))].slot;
    };
    bool const has_times = dice.percent(70);
    auto const fate = [&] {
        Fate drawn;
        drawn.kind = dice.percent(30)   ? FateKind::recompute
                     : dice.percent(60) ? FateKind::move
                                        : FateKind::keep;
        drawn.pool = dice.percent(50) ? Pool::host : Pool::nvme;
        if (has_times && dice.percent(70)) {
            drawn.leaves = any_slot();
        }
        if (has_times && dice.percent(70)) {
            drawn.returns = any_slot();
        }
        return drawn;
    };
    for (TraceValue const& value : trace.values) {
        if (dice.percent(70)) {
            plan.fates[value.slot] = fate();
        }
    }
    plan.fates[unknown] = fate();
    return plan;
}

Case random_case(std::uint64_t seed) {
    Dice dice(seed);
    Case made;
    made.trace = random_trace(dice);
    made.machine = random_machine(dice);
    made.options = random_options(dice, made.trace);
    if (dice.percent(made.options.chooser == ChooserKind::planned ? 90 : 5)) {
        made.plan = random_plan(dice, made.trace);
    }
    made.how = random_how(dice);
    draw_rule(dice, made.trace, made.how);
    draw_recipes(dice, made);
    made.options.eviction = dice.percent(25) ? EvictionRule::delta : EvictionRule::next_use;
    return made;
}

std::string describe(Case const& subject) {
    std::ostringstream text;
    SimulatorOptions const& how = subject.how;
    text << log_header(subject.options) << "\nsteps " << how.steps << ", order "
         << static_cast<int>(how.order) << ", settle_at_waits " << how.settle_at_waits
         << ", write_every " << how.write_every << ", fail_store " << how.fail_store
         << ", fail_load " << how.fail_load << ", fault_is_full " << how.fault_is_full
         << ", full_at host " << how.full_at_bytes[1] << ", nvme " << how.full_at_bytes[2]
         << ", fail_recompute " << how.fail_recompute << ", no_recipe " << how.no_recipe
         << ", transient_percent " << how.transient_percent << ", recompute_before_moves "
         << how.recompute_before_moves << ", fail_decode " << how.fail_decode << ", raw_every "
         << how.raw_every << ", rates " << how.encode_rate_bytes_per_s << " "
         << how.decode_rate_bytes_per_s << "\n"
         << to_json_text(subject.trace);
    if (subject.plan) {
        text << to_json_text(*subject.plan);
    }
    return text.str();
}

TEST(RandomCase, is_valid) {
    for (std::uint64_t const seed : seeds(500)) {
        Case const made = random_case(seed);
        EXPECT_TRUE(validate(made.trace).ok()) << rerun(seed);
        EXPECT_TRUE(validate(made.machine).ok()) << rerun(seed);
    }
}

TEST(RandomCase, is_a_function_of_its_seed) {
    EXPECT_EQ(random_case(7).trace, random_case(7).trace);
    EXPECT_NE(random_case(7).trace, random_case(8).trace);
}

}  // namespace spillway::fuzz
