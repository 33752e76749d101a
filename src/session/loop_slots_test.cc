// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A loop whose plan was made of one step, and whose later steps have other layers.

#include "executor/event_log.h"
#include "session/loop_rig.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kLayerSize = 64_KiB;
constexpr int kTracedLayers = 6;
constexpr int kAdded = -1;  ///< stands for a layer that the traced step has not
SaveMark const kFloats{TensorClass::other, 6, 3};
SaveMark const kHalves{TensorClass::other, 15, 3};

/// The products of layers with an even number leave when the layer is made, all others stay.
bool leaves_by_plan(int layer, std::size_t place) {
    return layer >= 0 && layer < kTracedLayers && layer % 2 == 0 && place == 1;
}

std::string kind_of_layer(int layer) {
    return layer == kAdded ? "adapter" : "layer " + std::to_string(layer);
}

/// Of each layer what is its own, a product, and what follows.
Result<Plan> plan_by_layers(Trace const& trace, PlanRan const* /*ran*/) {
    Plan plan;
    plan.policy = "by hand";
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
        std::size_t const layer = i / 3;
        bool const leaves = leaves_by_plan(static_cast<int>(layer), i % 3);
        if (layer == kTracedLayers) {
            break;  // the last values are left to `online`
        }
        Fate& fate = plan.fates[trace.values[i].slot];
        fate.kind = leaves ? FateKind::move : FateKind::keep;
        if (leaves) {
            fate.leaves = trace.values[3 * layer + 2].slot;
        }
    }
    return plan;
}

struct LayeredRig : Rig {
    explicit LayeredRig(std::int64_t limit_bytes, std::string log = {})
        : Rig(limit_bytes,
              {},
              std::move(log),
              64_MiB,
              ChooserKind::planned,
              Pool::nvme,
              {},
              NonFinite::keep,
              kCodedBytes,
              std::nullopt,
              plan_by_layers) {}

    /// As the driver counts it.
    Slot slot_of(std::string const& producer) { return {producer, 0, counts[producer]++}; }

    void save_layer(int layer) {
        SaveMark const& mark = layer == kAdded ? kHalves : kFloats;
        for (std::string const& producer :
             {kind_of_layer(layer), std::string("addmm"), std::string("gelu")}) {
            values.push_back(save(kLayerSize, slot_of(producer), mark).value());
            layers.push_back(layer);
        }
    }

    /// Whether each of the step's values is where the plan has it.
    void expect_fates() const {
        for (std::size_t i = 0; i < values.size(); ++i) {
            EXPECT_EQ(driver->has(values[i]), !leaves_by_plan(layers[i], i % 3))
                << "value " << i << " of " << kind_of_layer(layers[i]);
        }
    }

    void forward(std::int64_t number, std::vector<int> const& of) {
        counts.clear();
        values.clear();
        layers.clear();
        loop->begin_pass();
        loop->begin_step(number);
        loop->phase(Phase::forward);
        for (int const layer : of) {
            save_layer(layer);
        }
        for (int i = 0; i < 2; ++i) {  // the head's
            values.push_back(save(kLayerSize, slot_of("head"), kFloats).value());
            layers.push_back(kTracedLayers + 1);
        }
    }
    void backward() {
        loop->phase(Phase::backward);
        for (auto value = values.rbegin(); value != values.rend(); ++value) {
            EXPECT_TRUE(loop->need(*value).ok());
            expect_intact(*value);
            done_with(*value);
        }
        loop->phase(Phase::update);
    }
    void step(std::int64_t number, std::vector<int> const& of) {
        forward(number, of);
        backward();
    }
    /// The first warms up, of the second the plan is made, with the third it begins.
    void begin_with_plan() {
        step(1, {0, 1, 2, 3, 4, 5});
        step(2, {0, 1, 2, 3, 4, 5});
    }

    std::map<std::string, std::int32_t> counts;
    std::vector<ValueId> values;
    std::vector<int> layers;  ///< of each value
};

TEST(LoopSlots, equal_steps_follow_the_plan) {
    LayeredRig rig(4_MiB);
    rig.begin_with_plan();
    rig.forward(3, {0, 1, 2, 3, 4, 5});
    rig.expect_fates();
    rig.backward();
    EXPECT_EQ(rig.loop->report().plan.policy, "by hand");
}

TEST(LoopSlots, a_step_without_backward_is_not_planned_but_one_after_it) {
    LayeredRig rig(4_MiB);
    rig.step(1, {0, 1, 2, 3, 4, 5});
    rig.forward(2, {0, 1, 2, 3, 4, 5});
    for (ValueId const value : rig.values) {
        rig.done_with(value);
    }
    rig.step(3, {0, 1, 2, 3, 4, 5});
    EXPECT_NE(rig.loop->report().plan.refusal, "");
    for (std::int64_t number = 4; number <= 5; ++number) {
        rig.step(number, {0, 1, 2, 3, 4, 5});
    }
    rig.forward(6, {0, 1, 2, 3, 4, 5});
    rig.expect_fates();
    rig.backward();
    EXPECT_EQ(rig.loop->report().plan.refusal, "");
}

TEST(LoopSlots, values_after_an_inserted_layer_keep_their_fates) {
    LayeredRig rig(4_MiB);
    rig.begin_with_plan();
    rig.forward(3, {0, 1, kAdded, 2, 3, 4, 5});
    rig.expect_fates();
    rig.backward();
    rig.forward(4, {0, 1, 2, 3, 4, 5});
    rig.expect_fates();
    rig.backward();
}

TEST(LoopSlots, values_after_a_missing_layer_keep_their_fates) {
    LayeredRig rig(4_MiB);
    rig.begin_with_plan();
    rig.forward(3, {0, 2, 3, 4, 5});
    rig.expect_fates();
    rig.backward();
}

TEST(LoopSlots, a_pass_more_in_the_step_has_the_fates_again) {
    LayeredRig rig(4_MiB);
    rig.begin_with_plan();
    rig.step(3, {0, 1, 2, 3, 4, 5});
    rig.forward(3, {0, 1, 2, 3, 4, 5});
    rig.expect_fates();
    rig.backward();
}

TEST(LoopSlots, other_layers_end_within_the_budget_and_their_log_replays) {
    std::string const log = ::testing::TempDir() + "/loop_slots_" + std::to_string(::getpid());
    std::int64_t const limit_bytes = 14 * kLayerSize;
    {
        LayeredRig rig(limit_bytes, log);
        rig.begin_with_plan();
        rig.step(3, {0, 1, 2, kAdded, 3, 4, 5});
        rig.step(4, {0, 1, 2, 4, 5});
        rig.step(5, {5, 4, 3, 2, 1, 0});
        EXPECT_LE(rig.loop->report().device_peak_bytes, limit_bytes);
        EXPECT_GT(rig.loop->report().stored_bytes, 0);
    }
    std::ifstream stream(log);
    Result<ReplayOutcome> const outcome = replay(stream);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_TRUE(outcome->identical) << outcome->difference;
    EXPECT_EQ(outcome->steps, 5);
    std::remove(log.c_str());
}

/// The slots of what was saved, as an event log has them.
std::vector<Slot> slots_in(std::string const& log) {
    std::ifstream stream(log);
    EventLog const read = read_event_log(stream).value();
    std::vector<Slot> slots;
    for (LogEntry const& entry : read.entries) {
        auto const* const event = std::get_if<Event>(&entry);
        auto const* const saved = event == nullptr ? nullptr : std::get_if<Saved>(event);
        if (saved != nullptr) {
            slots.push_back(saved->slot);
        }
    }
    return slots;
}

TEST(LoopSlots, events_have_the_plans_slots_and_a_trace_the_drivers) {
    std::string const file = ::testing::TempDir() + "/loop_slots_" + std::to_string(::getpid());
    std::string const log = file + ".events";
    {
        LayeredRig rig(4_MiB, log);
        rig.begin_with_plan();
        rig.loop->begin_step(3);  // where the trace for the plan ends
        ASSERT_TRUE(rig.loop->trace_a_step(file).ok());
        rig.step(4, {});
        rig.step(5, {0, 2, 3, 4, 5});
    }
    std::ifstream stream(file);
    std::string const text((std::istreambuf_iterator<char>(stream)), {});
    Result<Trace> const trace = parse_trace(text);
    ASSERT_TRUE(trace.ok()) << trace.error().message();
    EXPECT_EQ(trace->values.at(4).slot, (Slot{"addmm", 0, 1}));  // the second product
    std::vector<Slot> const slots = slots_in(log);
    std::size_t const first = slots.size() - trace->values.size();
    EXPECT_EQ(slots.at(first + 4), (Slot{"addmm", 0, 2}));  // layer 2's, though layer 1 is missing
    std::remove(file.c_str());
    std::remove(log.c_str());
}

}  // namespace
}  // namespace spillway
