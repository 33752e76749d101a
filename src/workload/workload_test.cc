// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "workload/workload.h"

#include "machine/data_sheets.h"
#include "trace/units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

/// Products take their time, memory none.
Machine endless_memory() {
    Machine machine;
    machine.device = {1e12, 1e12, 1e18, 0};
    return machine;
}

Trace traced(WorkloadRequest const& request, Machine const& machine = endless_memory()) {
    Result<Trace> const trace = make_workload(request, machine);
    EXPECT_TRUE(trace.ok()) << request.model << ": " << trace.error().message();
    return trace.ok() ? *trace : Trace{};
}

/// Of values that modules of this path save; `statistics` (a few a row) apart.
std::int64_t saved_bytes(Trace const& trace, std::string const& path, bool statistics = false) {
    std::int64_t bytes = 0;
    for (TraceValue const& value : trace.values) {
        bool const is_statistic = value.tensor_class == TensorClass::statistics;
        if (value.module.rfind(path, 0) == 0 && is_statistic == statistics) {
            bytes += value.size_bytes;
        }
    }
    return bytes;
}

TEST(Workload, has_the_parameters_that_the_models_have) {
    EXPECT_EQ(workload_parameters("gpt2-345m"), 354'823'168);
    EXPECT_EQ(workload_parameters("gpt2-1.5b"), 1'557'611'200);
    EXPECT_EQ(workload_parameters("llama2-7b"), 6'738'415'616);
    EXPECT_EQ(workload_parameters("bert-large"), 335'174'458);
    EXPECT_EQ(workload_parameters("t5-3b"), 2'851'598'336);
    EXPECT_EQ(workload_parameters("vgg16"), 138'357'544);
    EXPECT_EQ(workload_parameters("resnet50"), 25'557'032);
    EXPECT_EQ(workload_parameters("resnet152"), 60'192'808);
    EXPECT_EQ(workload_parameters("gpt5"), 0);
}

/// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022,
/// equation 1: a layer in half precision with dropout saves s b h (34 + 5 a s / h) bytes, without
/// the statistics of its norms.
TEST(Workload, a_layer_saves_what_korthikanti_et_al_count) {
    constexpr std::int64_t kS = 512;
    constexpr std::int64_t kB = 4;
    for (std::string const model : {"gpt2-345m", "bert-large"}) {
        constexpr std::int64_t kH = 1024;
        constexpr std::int64_t kA = 16;
        WorkloadRequest request{.model = model, .batch = kB, .sequence = kS, .dtype = "bfloat16"};
        std::string const layer = model == "bert-large" ? "encoder.layer.1." : "h.1.";
        request.fused_attention = false;
        EXPECT_EQ(saved_bytes(traced(request), layer), 34 * kS * kB * kH + 5 * kA * kS * kS * kB)
            << model;
        // Fused attention saves neither scores' softmax (2), its dropout's mask (1) nor what the
        // dropout makes (2), but 4 bytes for each query and head.
        request.fused_attention = true;
        Trace const fused = traced(request);
        EXPECT_EQ(saved_bytes(fused, layer), 34 * kS * kB * kH) << model;
        EXPECT_EQ(saved_bytes(fused, layer, true), 4 * kA * kS * kB + 2 * 8 * kS * kB) << model;
    }
}

/// Two RMS norms' inputs and results, q, k, v, attention's result; gate, its SiLU, up, their
/// product: 2 bytes each. (Its queries and keys are saved as they are rotated.)
TEST(Workload, a_layer_of_llama_saves_its_formula) {
    constexpr std::int64_t kRows = 2 * 256;
    Trace const trace =
        traced({.model = "llama2-7b", .batch = 2, .sequence = 256, .dtype = "bfloat16"});
    EXPECT_EQ(saved_bytes(trace, "layers.3."), kRows * 2 * (8 * 4096 + 4 * 11008));
}

/// Narayanan et al., 2021, without recompute: 72 b s l h^2 (1 + s / 6h + V / 12lh) operations.
TEST(Workload, gpt2_computes_what_narayanan_et_al_count) {
    double const b = 2;
    double const s = 256;
    double const h = 1024;
    double const l = 24;
    double const flop = 72 * b * s * l * h * h * (1 + s / (6 * h) + 50257 / (12 * l * h));
    Trace const trace =
        traced({.model = "gpt2-345m", .batch = 2, .sequence = 256, .fused_attention = false});
    double compute_ns = 0;
    for (TracePoint const& point : trace.points) {
        compute_ns += static_cast<double>(point.duration_ns);
    }
    EXPECT_NEAR(compute_ns / (flop / (kProductEfficiency * 1e12) * 1e9), 1.0, 1e-3);
}

/// The products of one picture of 224 x 224, as commonly counted: 15.5 and 4.1 G multiply-adds.
TEST(Workload, pictures_take_the_known_operations) {
    for (auto const& [model, operations] :
         {std::pair("vgg16", 2 * 15.47e9), std::pair("resnet50", 2 * 4.09e9)}) {
        double forward_ns = 0;
        for (TracePoint const& point : traced({.model = model, .batch = 1}).points) {
            bool const is_forward = point.phase == Phase::forward;
            forward_ns += is_forward ? static_cast<double>(point.duration_ns) : 0;
        }
        EXPECT_NEAR(forward_ns * kProductEfficiency * 1e3 / operations, 1.0, 0.01) << model;
    }
}

/// VGG-16 has 13 convolutions; most take what a ReLU saved, too.
TEST(Workload, a_convolutions_input_is_one_whoever_else_saves_it) {
    Trace const trace = traced({.model = "vgg16", .batch = 1});
    auto const count = [&](TensorClass wanted) {
        return std::count_if(trace.values.begin(), trace.values.end(), [&](auto const& value) {
            auto const& all = value.classes;
            return value.tensor_class == wanted ||
                   std::find(all.begin(), all.end(), wanted) != all.end();
        });
    };
    EXPECT_EQ(count(TensorClass::convolution_input), 13);
    EXPECT_GT(count(TensorClass::relu_output), 13);
}

/// "layer1.0" of "layer1.0.bn1"; empty outside of the blocks of a ResNet.
std::string block_of(std::string const& module) {
    std::size_t const dot = module.find('.');
    bool const is_in_block = module.starts_with("layer") && dot != std::string::npos;
    return is_in_block ? module.substr(0, module.find('.', dot + 1)) : "";
}

/// So that a policy that makes blocks again keeps their inputs, as in a recorded step, where
/// nothing tells whose the ReLU between two blocks is.
TEST(Workload, a_block_is_made_again_from_its_own_values_and_what_is_between_blocks) {
    Trace const trace = traced({.model = "resnet50", .batch = 1});
    std::vector<std::string> blocks;  // by value
    std::int64_t recipes = 0;
    for (TraceValue const& value : trace.values) {
        std::string const block = block_of(value.module);
        blocks.push_back(block);
        bool const is_meant = !block.empty() && value.recipe;
        for (ValueId const source : is_meant ? value.recipe->sources : std::vector<ValueId>()) {
            ++recipes;
            std::string const& of_source = blocks.at(source.index());
            EXPECT_TRUE(of_source.empty() || of_source == block)
                << value.module << " from " << of_source;
        }
    }
    EXPECT_GT(recipes, 100);
}

/// Three convolutions a block, and the first and the last layer. A norm saves three values.
TEST(Workload, a_resnet_of_another_depth_has_more_blocks_in_its_third_stage) {
    auto const saved_by_norms = [](Trace const& trace, std::string const& path) {
        return std::count_if(trace.values.begin(), trace.values.end(), [&](auto const& value) {
            return value.module.starts_with(path) && value.module.ends_with("bn2");
        });
    };
    Trace const own = traced({.model = "resnet152", .batch = 1});
    Trace const deep = traced({.model = "resnet152", .batch = 1, .layers = 302});
    EXPECT_EQ(saved_by_norms(own, "layer3."), 3 * 36);
    EXPECT_EQ(saved_by_norms(deep, "layer3."), 3 * (36 + 50));
    EXPECT_EQ(saved_by_norms(deep, "layer"), 3 * (3 + 8 + 86 + 3));
}

TEST(Workload, states_are_as_the_optimizer_has_them) {
    auto const floor = [](std::string const& optimizer, std::string const& dtype) {
        return traced({.model = "resnet50", .dtype = dtype, .optimizer = optimizer})
            .points.back()
            .floor_bytes;
    };
    constexpr std::int64_t kParameters = 25'557'032;
    EXPECT_EQ(floor("adamw", "float32"), kParameters * (4 + 4 + 8));
    EXPECT_EQ(floor("", "float32"), kParameters * (4 + 4 + 4));
    EXPECT_EQ(floor("sgd", "bfloat16"), kParameters * (2 + 2));
    EXPECT_EQ(floor("adamw", "bfloat16"), kParameters * 16);
}

TEST(Workload, every_model_is_a_valid_step_on_every_data_sheet) {
    for (std::string const& model : workload_names()) {
        std::set<Slot> slots;
        Trace const trace = traced({.model = model, .batch = 1}, *find_data_sheet("h100"));
        EXPECT_TRUE(validate(trace).ok()) << model;
        for (TraceValue const& value : trace.values) {
            EXPECT_TRUE(slots.insert(value.slot).second) << model << " " << value.slot.producer;
            EXPECT_NE(value.recipe.has_value(), !value.why_no_recipe.empty()) << model;
        }
        EXPECT_EQ(*parse_trace(to_json_text(trace)), trace) << model;
    }
    for (std::string const& sheet : data_sheet_names()) {
        EXPECT_TRUE(make_workload({.model = "resnet50"}, *find_data_sheet(sheet)).ok()) << sheet;
    }
}

TEST(Workload, repeats_what_a_model_repeats) {
    EXPECT_EQ(units_of(traced({.model = "gpt2-345m", .batch = 1})).names.size(), 24U);
    EXPECT_EQ(units_of(traced({.model = "t5-3b", .batch = 1})).names.size(), 48U);
    EXPECT_EQ(units_of(traced({.model = "resnet152", .batch = 1})).names.size(), 50U);
}

TEST(Workload, fewer_layers_are_the_same_layers) {
    Trace const two = traced({.model = "gpt2-345m", .batch = 1, .layers = 2});
    Trace const all = traced({.model = "gpt2-345m", .batch = 1});
    EXPECT_EQ(two.name, "gpt2-345m of 2 layers, batch 1, sequence 1024, float32, not run");
    EXPECT_EQ(units_of(two).names.size(), 2U);
    EXPECT_EQ(saved_bytes(two, "h.1."), saved_bytes(all, "h.1."));
    EXPECT_EQ(saved_bytes(two, "h.2."), 0);
    EXPECT_EQ(units_of(traced({.model = "t5-3b", .batch = 1, .layers = 2})).names.size(), 4U);
}

TEST(Workload, what_is_wrong_is_one_line) {
    auto const refusal = [](WorkloadRequest const& request, Machine const& machine) {
        Result<Trace> const trace = make_workload(request, machine);
        return trace.ok() ? std::string() : trace.error().message();
    };
    EXPECT_EQ(
        refusal({.model = "gpt5"}, endless_memory()),
        "workload: no model 'gpt5'; there are gpt2-345m, gpt2-1.5b, llama2-7b, bert-large, t5-3b, "
        "vgg16, resnet50, resnet152"
    );
    EXPECT_EQ(
        refusal({.model = "vgg16", .sequence = 8}, endless_memory()),
        "workload: vgg16 takes pictures, and so no sequence"
    );
    EXPECT_EQ(
        refusal({.model = "vgg16", .layers = 8}, endless_memory()),
        "workload: vgg16 has its own layers only"
    );
    EXPECT_EQ(
        refusal({.model = "llama2-7b", .layers = -1}, endless_memory()),
        "workload: layers -1 is not from 1 to 4096"
    );
    EXPECT_EQ(
        refusal({.model = "resnet50", .layers = 51}, endless_memory()),
        "workload: resnet50 has no 51 layers, but 35, 38 and so on"
    );
    EXPECT_EQ(
        refusal({.model = "vgg16", .dtype = "int8"}, endless_memory()),
        "workload: no dtype 'int8'; there are float32, bfloat16, float16"
    );
    EXPECT_EQ(
        refusal({.model = "vgg16", .optimizer = "lion"}, endless_memory()),
        "workload: no optimizer 'lion'; there are adamw, momentum, sgd"
    );
    EXPECT_EQ(
        refusal({.model = "vgg16", .batch = -1}, endless_memory()),
        "workload: batch -1 is not from 1 to 4096"
    );
    EXPECT_EQ(
        refusal({.model = "vgg16"}, Machine{}),
        "workload: the machine does not say how fast its device computes (flop_per_s, "
        "memory_bytes_per_s)"
    );
}

}  // namespace
}  // namespace spillway
