// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// bench-plan's clock: `plan_bench SHAPE VALUES POLICY [PERCENT]` makes a step of so many values,
// has the policy make a plan of it under that share of the way from floor to peak, and simulates
// one step under that plan. POLICY `online` has no plan: the simulator alone. Prints one JSON
// object; bench/plan.py judges many. `plan_bench policies`: those that make plans.
//
// SHAPE   layers   layers of ten values
//         chain    layers of one value: the longest chain that so many values can be
//         mixture  nothing repeats
#include "base/random.h"
#include "base/units.h"
#include "machine/machine.h"
#include "policy/catalog.h"
#include "simulator/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kUnitBytes = 1_MiB;
constexpr std::int64_t kUnitNs = 100'000;
constexpr std::int64_t kFloorBytes = 4 * kUnitBytes;
constexpr std::int64_t kBudgetPercent = 60;  ///< where none is given

constexpr std::array<std::string_view, 3> kShapes{"layers", "chain", "mixture"};

/// A transformer's layer as its saves show it; sizes in `kUnitBytes`.
struct Save {
    char const* producer;
    std::int64_t units;
    bool has_recipe;
    TensorClass tensor_class;
};
constexpr std::array<Save, 10> kLayer{{
    {"AddBackward0", 2, true, TensorClass::norm_input},
    {"NativeLayerNormBackward0", 2, true, TensorClass::linear_input},
    {"AddmmBackward0", 6, false, TensorClass::attention},
    {"AttentionBackward0", 2, true, TensorClass::linear_input},
    {"NativeDropoutBackward0", 1, false, TensorClass::mask},
    {"AddBackward0", 2, true, TensorClass::convolution_input},
    {"NativeLayerNormBackward0", 2, true, TensorClass::linear_input},
    {"AddmmBackward0", 8, true, TensorClass::activation_input},
    {"GeluBackward0", 8, true, TensorClass::linear_input},
    {"AddmmBackward0", 2, true, TensorClass::other},
}};

/// Where a layer has fewer values than `kLayer`, the next goes on where it ends.
TraceValue value_of(std::int64_t number, std::int64_t values_a_layer) {
    auto const at = static_cast<std::size_t>(number % std::ssize(kLayer));
    auto const layer = static_cast<std::int32_t>(number / values_a_layer);
    Save const& save = kLayer[at];
    TraceValue value{
        .slot = {save.producer, static_cast<std::int32_t>(at), layer},
        .size_bytes = save.units * kUnitBytes,
        .module = "h." + std::to_string(layer),
        .tensor_class = save.tensor_class};
    if (save.has_recipe && number > 0) {
        value.recipe =
            RecipeShape{.sources = {ValueId{number - 1}}, .calls = 1, .duration_ns = kUnitNs};
    }
    return value;
}

/// Layers in a row; each value is made of the one before, and backward needs them in reverse.
Trace layers(std::int64_t count, std::int64_t values_a_layer) {
    Trace trace{.name = "layers", .values = {}, .points = {}};
    for (std::int64_t i = 0; i < count; ++i) {
        trace.values.push_back(value_of(i, values_a_layer));
        TracePoint point{.duration_ns = kUnitNs, .floor_bytes = kFloorBytes, .saved = {ValueId{i}}};
        if (i > 0) {
            point.unshared = {ValueId{i - 1}};
        }
        trace.points.push_back(point);
    }
    for (std::int64_t i = count; i-- > 0;) {
        trace.points.push_back(
            {.phase = Phase::backward,
             .duration_ns = 2 * kUnitNs,
             .floor_bytes = kFloorBytes,
             .needed = {ValueId{i}},
             .dropped = {ValueId{i}}}
        );
    }
    return trace;
}

/// Sizes, times, sources and the order of backward by lot; nothing repeats.
class Mixture {
  public:
    explicit Mixture(std::int64_t count) : count_(count) {}

    Trace make() {
        for (std::int64_t i = 0; i < count_; ++i) {
            add_value(i);
            TracePoint point{
                .duration_ns = below(2 * kUnitNs),
                .floor_bytes = below(2 * kFloorBytes),
                .saved = {ValueId{i}}};
            if (i > 0) {
                point.unshared = {ValueId{i - 1}};
            }
            trace_.points.push_back(point);
        }
        std::vector<ValueId> order;
        for (std::int64_t i = count_; i-- > 0;) {
            order.push_back(ValueId{i});
        }
        for (std::size_t i = 0; i + 1 < order.size(); ++i) {  // a little out of order
            std::swap(order[i], order[std::min(order.size() - 1, i + index_below(4))]);
        }
        for (ValueId const id : order) {
            trace_.points.push_back(
                {.phase = Phase::backward,
                 .duration_ns = below(4 * kUnitNs),
                 .floor_bytes = below(2 * kFloorBytes),
                 .needed = {id},
                 .dropped = {id}}
            );
        }
        return std::move(trace_);
    }

  private:
    std::int64_t below(std::int64_t most) {
        return static_cast<std::int64_t>(mixed(++drawn_) % static_cast<std::uint64_t>(most));
    }
    std::size_t index_below(std::int64_t most) { return static_cast<std::size_t>(below(most)); }

    void add_value(std::int64_t i) {
        TraceValue value{
            .slot = {"op" + std::to_string(below(20)), 0, static_cast<std::int32_t>(i)},
            .size_bytes = 1 + below(8 * kUnitBytes),
            .module = "h." + std::to_string(i / 7)};
        if (below(4) == 0) {
            value.tensor_class = TensorClass::convolution_input;
        }
        if (i > 0 && below(3) > 0) {
            value.recipe = RecipeShape{
                .sources = {ValueId{i - 1 - below(std::min<std::int64_t>(i, 4))}},
                .calls = 1 + below(3),
                .duration_ns = below(2 * kUnitNs),
                .transient_bytes = below(kUnitBytes)};
        }
        trace_.values.push_back(std::move(value));
    }

    std::int64_t count_;
    std::uint64_t drawn_ = 0;
    Trace trace_{.name = "mixture", .values = {}, .points = {}};
};

/// Host and NVMe, of which the host takes a third of the step.
Machine machine_of(std::int64_t peak_bytes) {
    Machine machine{.name = "bench", .tiers = {}, .links = {}, .groups = {}};
    machine.tiers = {
        {"device", Pool::device, peak_bytes},
        {"host", Pool::host, peak_bytes},
        {"nvme", Pool::nvme, peak_bytes}};
    for (auto const& [from, to, rate] :
         {std::tuple(Pool::device, Pool::host, 20e9),
          std::tuple(Pool::host, Pool::device, 20e9),
          std::tuple(Pool::device, Pool::nvme, 5e9),
          std::tuple(Pool::nvme, Pool::device, 6e9)}) {
        machine.links.push_back({from, to, rate, 0.8 * rate, 10'000, ""});
    }
    return machine;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::uint64_t digest_of(std::string_view text) {
    std::uint64_t digest = text.size();
    for (char const c : text) {
        digest = mixed(digest ^ static_cast<std::uint8_t>(c));
    }
    return digest;
}

Budgets budgets_of(std::int64_t peak_bytes, std::int64_t percent) {
    return {
        .device_bytes = kFloorBytes + (peak_bytes - kFloorBytes) * percent / 100,
        .host_bytes = peak_bytes / 3,
        .nvme_bytes = peak_bytes};
}

Trace trace_of(std::string_view shape, std::int64_t values) {
    if (shape == "mixture") {
        return Mixture(values).make();
    }
    return layers(values, shape == "chain" ? 1 : std::ssize(kLayer));
}

int run(
    std::string_view shape, std::int64_t values, std::string const& policy, std::int64_t percent
) {
    Trace const trace = trace_of(shape, values);
    std::int64_t const peak_bytes = peak_without_moves(trace);
    Machine const machine = machine_of(peak_bytes);
    Budgets const budgets = budgets_of(peak_bytes, percent);
    std::optional<Plan> plan;
    std::string said;
    double plan_s = 0;
    if (policy != "online") {
        auto const begin = std::chrono::steady_clock::now();
        Result<Plan> made = make_plan({policy, {}}, trace, machine, budgets);
        plan_s = seconds_since(begin);
        said = made.ok() ? fmt::format("{:016x}", digest_of(to_json_text(*made)))
                         : made.error().message();
        std::replace(said.begin(), said.end(), '"', '\'');
        plan = made.ok() ? std::optional(std::move(*made)) : std::nullopt;
    }
    ExecutorOptions const options{
        .chooser = plan ? ChooserKind::planned : ChooserKind::online,
        .device_bytes = budgets.device_bytes,
        .host_bytes = budgets.host_bytes,
        .nvme_bytes = budgets.nvme_bytes};
    SimulatorOptions const how{
        .order = OrderHint::exact, .keep_log = false, .keep_timeline = false};
    auto const begin = std::chrono::steady_clock::now();
    Result<SimulationResult> const result =
        simulate(trace, machine, options, plan ? &*plan : nullptr, how);
    double const simulate_s = seconds_since(begin);
    if (!result.ok()) {
        fmt::print(stderr, "plan_bench: {}\n", result.error().message());
        return 1;
    }
    fmt::print(
        "{{\"shape\": \"{}\", \"values\": {}, \"policy\": \"{}\", \"plan_s\": {:.6f}, "
        "\"simulate_s\": {:.6f}, \"runs\": {}, \"step_ns\": {}, \"plan\": \"{}\"}}\n",
        shape,
        values,
        policy,
        plan_s,
        simulate_s,
        result->ok,
        result->total_ns,
        said
    );
    return 0;
}

int main_of(std::vector<std::string> const& arguments) {
    if (arguments.size() == 1 && arguments[0] == "policies") {
        for (Policy const& policy : policies()) {
            if (policy.make_plan != nullptr) {
                fmt::print("{}\n", policy.name);
            }
        }
        return 0;
    }
    bool const is_known = (arguments.size() == 3 || arguments.size() == 4) &&
                          std::count(kShapes.begin(), kShapes.end(), arguments[0]) > 0 &&
                          find_policy(arguments[2]) != nullptr;
    std::int64_t const values = is_known ? std::atoll(arguments[1].c_str()) : 0;
    std::int64_t const percent =
        arguments.size() == 4 ? std::atoll(arguments[3].c_str()) : kBudgetPercent;
    if (values < 1 || values > 10'000'000 || percent < 1 || percent > 100) {
        fmt::print(
            stderr,
            "usage: plan_bench policies | plan_bench layers|chain|mixture VALUES POLICY [PERCENT]\n"
        );
        return 2;
    }
    return run(arguments[0], values, arguments[2], percent);
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
    return spillway::main_of({argv + 1, argv + argc});
}
