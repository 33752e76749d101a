// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "workload/workload.h"

#include "workload/models.h"
#include "workload/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace spillway {

namespace {

/// Numbers of layers that a model may have: the least, and so many more each time. 0: its own only.
struct Depths {
    std::int64_t least;
    std::int64_t step;
};

struct CatalogModel {
    std::string_view name;
    Tape (*tape)(ModelInput const&);
    std::int64_t batch;
    std::int64_t sequence;  ///< 0: of pictures
    double dropout;
    std::string_view optimizer;
    Depths depths;
};

/// How many layers: the model's own, where nothing is asked for.
std::int64_t layers(ModelInput const& input, std::int64_t own) {
    return input.layers > 0 ? input.layers : own;
}

Tape gpt2_345m(ModelInput const& input) {
    return gpt2_tape({layers(input, 24), 1024, 16, 4096, 50257, 1024, 64}, input);
}
Tape gpt2_1_5b(ModelInput const& input) {
    return gpt2_tape({layers(input, 48), 1600, 25, 6400, 50257, 1024, 64}, input);
}
Tape llama2_7b(ModelInput const& input) {
    return llama_tape({layers(input, 32), 4096, 32, 11008, 32000, 0, 128}, input);
}
Tape bert_large(ModelInput const& input) {
    return bert_tape({layers(input, 24), 1024, 16, 4096, 30522, 512, 64}, input);
}
Tape t5_3b(ModelInput const& input) {
    return t5_tape({layers(input, 24), 1024, 32, 16384, 32128, 0, 128}, input);
}

/// Convolutions and the product at the end, three a block: the third stage has what the others do
/// not have.
std::int64_t blocks_of_third(std::int64_t depth, std::int64_t others) {
    return (depth - 2) / 3 - others;
}

Tape resnet50(ModelInput const& input) {
    return resnet_tape({3, 4, blocks_of_third(layers(input, 50), 10), 3}, input);
}
Tape resnet152(ModelInput const& input) {
    return resnet_tape({3, 8, blocks_of_third(layers(input, 152), 14), 3}, input);
}

constexpr Depths kAny{1, 1};

constexpr std::array<CatalogModel, 8> kModels{{
    {"gpt2-345m", gpt2_345m, 8, 1024, 0.1, "adamw", kAny},
    {"gpt2-1.5b", gpt2_1_5b, 8, 1024, 0.1, "adamw", kAny},
    {"llama2-7b", llama2_7b, 1, 4096, 0, "adamw", kAny},
    {"bert-large", bert_large, 32, 512, 0.1, "adamw", kAny},
    {"t5-3b", t5_3b, 8, 512, 0.1, "adamw", kAny},
    {"vgg16", vgg16_tape, 64, 0, 0.5, "momentum", {0, 0}},
    {"resnet50", resnet50, 64, 0, 0, "momentum", {35, 3}},
    {"resnet152", resnet152, 64, 0, 0, "momentum", {47, 3}},
}};

Error bad(std::string what) {
    return {Errc::bad_argument, std::move(what), "workload"};
}

CatalogModel const* find_model(std::string_view name) {
    auto const* const found =
        std::find_if(kModels.begin(), kModels.end(), [&](CatalogModel const& model) {
            return model.name == name;
        });
    return found == kModels.end() ? nullptr : found;
}

Error no_model(std::string const& name) {
    std::string known;
    for (CatalogModel const& model : kModels) {
        known += (known.empty() ? "" : ", ") + std::string(model.name);
    }
    return bad("no model '" + name + "'; there are " + known);
}

std::optional<ElementType> parse_dtype(std::string_view name) {
    for (ElementType const dtype : {kFloat32, kBFloat16, kFloat16}) {
        if (dtype.name == name) {
            return dtype;
        }
    }
    return std::nullopt;
}

/// In float32; a copy of the parameters in float32 comes on top in half precision.
std::optional<std::int64_t> state_bytes(std::string_view optimizer, bool is_half) {
    std::int64_t const copy_bytes = is_half ? 4 : 0;
    if (optimizer == "adamw") {
        return 8 + copy_bytes;
    }
    if (optimizer == "momentum") {
        return 4 + copy_bytes;
    }
    return optimizer == "sgd" ? std::optional<std::int64_t>(0) : std::nullopt;
}

/// Empty: the model can have so many layers, or none are asked for.
std::string why_no_such_depth(std::int64_t count, CatalogModel const& model) {
    constexpr std::int64_t kMostLayers = 4096;
    auto const [least, step] = model.depths;
    if (count == 0) {
        return {};
    }
    if (step == 0) {
        return fmt::format("{} has its own layers only", model.name);
    }
    if (count < least || count > kMostLayers) {
        return fmt::format("layers {} is not from {} to {}", count, least, kMostLayers);
    }
    if ((count - least) % step != 0) {
        return fmt::format(
            "{} has no {} layers, but {}, {} and so on", model.name, count, least, least + step
        );
    }
    return {};
}

/// The request with the model's defaults.
Result<ModelInput> input_of(WorkloadRequest const& request, CatalogModel const& model) {
    constexpr std::int64_t kMostBatch = 4096;
    constexpr std::int64_t kMostSequence = 131072;
    std::optional<ElementType> const dtype = parse_dtype(request.dtype);
    if (!dtype) {
        return bad("no dtype '" + request.dtype + "'; there are float32, bfloat16, float16");
    }
    if (request.batch < 0 || request.batch > kMostBatch) {
        return bad(fmt::format("batch {} is not from 1 to {}", request.batch, kMostBatch));
    }
    if (model.sequence == 0 && request.sequence != 0) {
        return bad(fmt::format("{} takes pictures, and so no sequence", model.name));
    }
    if (request.sequence < 0 || request.sequence > kMostSequence) {
        return bad(fmt::format("sequence {} is not from 1 to {}", request.sequence, kMostSequence));
    }
    if (std::string wrong = why_no_such_depth(request.layers, model); !wrong.empty()) {
        return bad(std::move(wrong));
    }
    if (request.dropout >= 1) {
        return bad("dropout is not below 1");
    }
    return ModelInput{
        .batch = request.batch > 0 ? request.batch : model.batch,
        .sequence = request.sequence > 0 ? request.sequence : model.sequence,
        .dtype = *dtype,
        .fused_attention = request.fused_attention,
        .dropout = request.dropout < 0 ? model.dropout : request.dropout,
        .layers = request.layers};
}

Result<StepRates> rates_of(
    Machine const& machine, ElementType const& dtype, std::string_view optimizer
) {
    bool const is_half = dtype != kFloat32;
    std::optional<std::int64_t> const state = state_bytes(optimizer, is_half);
    if (!state) {
        return bad("no optimizer '" + std::string(optimizer) + "'; there are adamw, momentum, sgd");
    }
    DeviceSpeed const& device = machine.device;
    double const flop = is_half ? device.half_flop_per_s : device.float32_flop_per_s;
    if (flop <= 0 || device.memory_bytes_per_s <= 0) {
        return Error{
            Errc::unsupported,
            "the machine does not say how fast its device computes (flop_per_s, "
            "memory_bytes_per_s)",
            "workload"};
    }
    return StepRates{
        .flop_per_s = kProductEfficiency * flop,
        .memory_bytes_per_s = kMemoryEfficiency * device.memory_bytes_per_s,
        .parameter_bytes = dtype.size_bytes,
        .gradient_bytes = dtype.size_bytes,
        .optimizer_bytes = *state};
}

}  // namespace

std::vector<std::string> workload_names() {
    std::vector<std::string> names;
    for (CatalogModel const& model : kModels) {
        names.emplace_back(model.name);
    }
    return names;
}

std::int64_t workload_parameters(std::string_view model) {
    CatalogModel const* const found = find_model(model);
    return found == nullptr ? 0
                            : found->tape({.batch = 1, .sequence = found->sequence}).parameters();
}

Result<Trace> make_workload(WorkloadRequest const& request, Machine const& machine) {
    CatalogModel const* const model = find_model(request.model);
    if (model == nullptr) {
        return no_model(request.model);
    }
    Result<ModelInput> const input = input_of(request, *model);
    if (!input.ok()) {
        return input.error();
    }
    Result<StepRates> const rates = rates_of(
        machine, input->dtype, request.optimizer.empty() ? model->optimizer : request.optimizer
    );
    if (!rates.ok()) {
        return rates.error();
    }
    std::string const tokens =
        input->sequence > 0 ? fmt::format(", sequence {}", input->sequence) : "";
    std::string const layers = input->layers > 0 ? fmt::format(" of {} layers", input->layers) : "";
    std::string const name = fmt::format(
        "{}{}, batch {}{}, {}, not run",
        model->name,
        layers,
        input->batch,
        tokens,
        input->dtype.name
    );
    return make_step(name, model->tape(*input), *rates);
}

}  // namespace spillway
