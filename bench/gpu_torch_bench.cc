// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One configuration of the GPU benchmark in one process: a model of `spillway train`, its loop and
// its weights, with saved activations kept, made again, put on the host or left to Spillway. Prints
// one JSON line, also when it fails. bench/gpu/run.sh runs it; on the CPU it is there for its test.

#include "gpu/ceilings.h"
#include "gpu/measured.h"
#include "gpu/settings.h"
#include "train/bad_value.h"
#include "train/trainer.h"

#include <ATen/Context.h>
#include <CLI/CLI.hpp>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace spillway::bench {
namespace {

using Json = nlohmann::ordered_json;

/// Bytes that are the same on every machine, with something to learn in them.
train::Corpus made_text() {
    train::Corpus corpus;
    constexpr std::int64_t kBytes = std::int64_t{1} << 20;
    for (std::int64_t at = 0; at < kBytes; ++at) {
        auto const word = train::mixed({at / 64 % 97});
        corpus.bytes.push_back(static_cast<std::uint8_t>((word >> (at % 8 * 8)) & 0x7fU));
    }
    return corpus;
}

/// Takes what is free on the device beyond `cap_bytes`, so that the run has no more than a smaller
/// device would give it.
at::Tensor ballast(c10::Device device, std::int64_t cap_bytes) {
    if (cap_bytes == 0 || device.is_cpu()) {
        return {};
    }
    (void)at::empty({1}, device);
    auto const [free, all] = c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
    auto const spare = static_cast<std::int64_t>(free) - cap_bytes;
    if (spare < 0) {
        throw train::BadValue("--cap: more than the " + std::to_string(free) + " bytes free");
    }
    return at::empty({spare}, at::TensorOptions().dtype(at::kByte).device(device));
}

Json quantiles(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    auto const at = [&](double part) {
        return values[static_cast<std::size_t>(
            part * static_cast<double>(values.size() - 1) + 0.5
        )];
    };
    return {{"min", at(0)}, {"median", at(0.5)}, {"max", at(1)}};
}

class Run {
  public:
    Run(Settings const& settings, c10::Device device)
        : settings_(settings),
          mode_(mode_of(settings.mode)),
          device_(device),
          options_(model_of(settings)),
          shape_(train::shape_of(options_)),
          corpus_(made_text()),
          budget_(mode_, device_, session_options()) {}

    void go(Json& line) {
        line["parameters"] = train::parameter_count(shape_);
        line["layers"] = shape_.layers;
        line["batch"] = shape_.batch;
        line["sequence"] = shape_.sequence;
        // Spillway's budget is its cap.
        at::Tensor const taken = ballast(device_, is_ours(mode_) ? 0 : settings_.cap_bytes);
        budget_.open();
        train::Trainer trainer(options_, shape_, corpus_, budget_, device_);
        if (mode_ == Mode::checkpoint) {
            bool const bf16 = settings_.precision == "bf16";
            trainer.model().run_blocks_by(
                [bf16](train::RunBlock const& block, at::Tensor const& x) {
                    return Recomputed::apply(x, c10::make_intrusive<BlockToRun>(block, bf16));
                }
            );
        }
        measure(trainer, line);
        memory(line, taken.defined() ? static_cast<std::int64_t>(taken.nbytes()) : 0);
        budget_.keep_gradients(trainer.model().parameters());
        losses_.push_back(trainer.step(settings_.warmup + settings_.steps));
        line["losses"] = losses_;
        line["gradient_hash"] = std::to_string(budget_.gradients().hash);
        line["gradient_norms"] = budget_.gradients().norms;
    }

  private:
    [[nodiscard]] SessionOptions session_options() const {
        return {
            .device_budget_bytes = settings_.budget_bytes,
            .host_budget_bytes = settings_.host_budget_bytes,
            .nvme = settings_.nvme,
            .nvme_budget_bytes = settings_.nvme_budget_bytes,
            .policy = mode_ == Mode::qpo ? "qpo" : "online",
            .whole_process = true,
            .device = settings_.device,
            .lossy = mode_ == Mode::qpo};
    }

    void measure(train::Trainer& trainer, Json& line) {
        for (std::int64_t step = 0; step < settings_.warmup; ++step) {
            one_step(trainer, step);
        }
        for (auto* const times : {&whole_, &forward_, &backward_, &update_}) {
            times->clear();
        }
        auto const before = budget_.report().value_or(Report{});
        std::int64_t const out = budget_.moved().out;
        std::int64_t const in = budget_.moved().in;
        for (std::int64_t step = 0; step < settings_.steps; ++step) {
            one_step(trainer, settings_.warmup + step);
        }
        auto const after = budget_.report().value_or(Report{});
        auto const a_step = [&](std::int64_t total) {
            return static_cast<double>(total) / static_cast<double>(settings_.steps);
        };
        line["step_seconds"] = quantiles(whole_);
        line["forward_seconds"] = quantiles(forward_);
        line["backward_seconds"] = quantiles(backward_);
        line["update_seconds"] = quantiles(update_);
        line["out_bytes_a_step"] =
            a_step(budget_.moved().out - out + after.stored_bytes - before.stored_bytes);
        line["in_bytes_a_step"] =
            a_step(budget_.moved().in - in + after.loaded_bytes - before.loaded_bytes);
        line["stall_store_seconds_a_step"] =
            a_step(after.stall_store_ns - before.stall_store_ns) / 1e9;
        line["stall_load_seconds_a_step"] =
            a_step(after.stall_load_ns - before.stall_load_ns) / 1e9;
    }

    void one_step(train::Trainer& trainer, std::int64_t step) {
        auto const begin = std::chrono::steady_clock::now();
        losses_.push_back(trainer.step(step));
        auto moments = budget_.take_moments();
        moments.emplace_back(device_);
        train::synchronize(device_);
        std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
        whole_.push_back(took.count());
        forward_.push_back(moments[0].seconds_until(moments[1]));
        backward_.push_back(moments[1].seconds_until(moments[2]));
        update_.push_back(moments[2].seconds_until(moments[3]));
    }

    void memory(Json& line, std::int64_t ballast_bytes) const {
        auto const or_null = [](auto const& value) { return value ? Json(*value) : Json(nullptr); };
        if (auto const memory = train::device_memory(device_)) {
            line["allocated_peak_bytes"] = memory->allocated_peak_bytes - ballast_bytes;
            line["reserved_peak_bytes"] = memory->reserved_peak_bytes - ballast_bytes;
        }
        if (!device_.is_cpu()) {  // each costs a wait for the whole device
            auto const known =
                c10::getDeviceAllocator(device_.type())->getDeviceStats(device_.index());
            line["allocator_retries"] = known.num_alloc_retries;
            line["allocator_ooms"] = known.num_ooms;
        }
        if (auto const report = budget_.report()) {
            line["ledger_peak_bytes"] = report->device_peak_bytes;
            line["host_peak_bytes"] = report->host_peak_bytes;
            line["nvme_peak_bytes"] = report->nvme_peak_bytes;
        }
        line["process_peak_bytes"] = or_null(train::process_peak_bytes());
    }

    Settings const& settings_;
    Mode mode_;
    c10::Device device_;
    TrainOptions options_;
    train::ModelShape shape_;
    train::Corpus corpus_;
    Measured budget_;
    std::vector<float> losses_;
    std::vector<double> whole_;
    std::vector<double> forward_;
    std::vector<double> backward_;
    std::vector<double> update_;
};

/// All that can be known of the settings without a GPU.
void check(Settings const& settings, Json& line) {
    (void)mode_of(settings.mode);
    line["parameters"] = train::parameter_count(train::shape_of(model_of(settings)));
    line["dry_run"] = true;
}

void measure(Settings const& settings, c10::Device device, Json& line) {
    c10::OptionalDeviceGuard guard;
    if (!device.is_cpu()) {
        guard.reset_device(device);
    }
    if (settings.deterministic) {
        at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
        at::globalContext().setDeterministicFillUninitializedMemory(false);
    }
    if (settings.ceiling_bytes > 0) {
        line.update(ceilings(device, settings.ceiling_bytes));
    } else {
        Run(settings, device).go(line);
    }
}

/// 0, or 1 with the reason in the line.
int run(Settings const& settings, c10::Device device) {
    Json line = as_asked(settings);
    try {
        settings.dry_run ? check(settings, line) : measure(settings, device, line);
        line["error"] = nullptr;
    } catch (std::exception const& failure) {
        std::string const why = failure.what();
        line["error"] = why.substr(0, why.find('\n'));
    }
    std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return line["error"].is_null() ? 0 : 1;
}

}  // namespace
}  // namespace spillway::bench

int main(int count, char** words) {
    namespace train = spillway::train;
    int refused = 2;
    CLI::App app{
        "One configuration of the GPU benchmark; one JSON line. Exit code 77: no such GPU."};
    spillway::bench::Settings settings;
    spillway::bench::add_flags(app, settings);
    CLI11_PARSE(app, count, words);
    try {
        c10::Device const device = train::device_of(settings.device);
        refused = 77;
        if (!settings.dry_run) {
            train::check_device(settings.device, device, &train::load_cuda);
        }
        return spillway::bench::run(settings, device);
    } catch (train::BadValue const& failure) {
        std::fprintf(stderr, "gpu_torch_bench: %s\n", failure.what());
        return refused;
    }
}
