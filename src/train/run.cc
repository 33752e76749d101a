// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/run.h"

#include "spillway/policy.h"
#include "spillway/session_error.h"
#include "train/bad_value.h"
#include "train/checkpoint.h"
#include "train/device.h"
#include "train/files.h"
#include "train/interrupt.h"
#include "train/prepare.h"
#include "train/progress.h"
#include "train/results.h"
#include "train/settings.h"
#include "train/trainer.h"
#include "train/warm_up.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace spillway::train {

namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kBadValue = 2;
constexpr int kInterrupted = 130;

std::string first_line(std::string const& text) {
    return text.substr(0, text.find('\n'));
}

/// The run after everything was checked.
class Run {
  public:
    Run(TrainOptions const& options, Budget& budget, Prepared prepared)
        : options_(options), budget_(budget), prepared_(std::move(prepared)) {
        results_.settings = all_settings(options_, prepared_.shape, prepared_.corpus).dump();
        results_.device = name_of(prepared_.device);
        results_.tokens_per_step =
            prepared_.shape.batch * prepared_.shape.sequence * options_.accumulate;
    }

    int go() {
        std::optional<c10::DeviceGuard> device;
        if (!prepared_.device.is_cpu()) {  // a GPU's context is made where the run is, only there
            device.emplace(prepared_.device);
        }
        warm();
        budget_.open();
        int code = kFailed;
        try {
            code = train();
        } catch (c10::OutOfMemoryError const& failure) {
            code = fail(kBadValue, out_of_memory(failure));
        } catch (c10::Error const& failure) {
            code = fail(kFailed, placed(failure, failure.what_without_backtrace()));
        } catch (BadValue const& failure) {
            return fail(kBadValue, failure.what());  // a checkpoint that does not fit: no results
        } catch (std::exception const& failure) {
            code = fail(kFailed, placed(failure, failure.what()));
        }
        return write_results(code);
    }

  private:
    void warm() {
        bool const has_places =
            !options_.session.nvme.empty() || options_.session.host_budget_bytes > 0;
        if (options_.session.device_budget_bytes == 0 && has_places) {
            progress_.print(
                "without --device-budget nothing is moved; --nvme and --host-budget are not used"
            );
        }
        if (options_.threads > 0) {
            at::set_num_threads(static_cast<int>(options_.threads));
        }
        budget_.prepare();
        warm_up(prepared_.shape.style, options_.precision, prepared_.device);
        results_.baseline_rss_bytes = resident_bytes();
    }

    int train() {
        trainer_ = std::make_unique<Trainer>(
            options_, prepared_.shape, prepared_.corpus, budget_, prepared_.device
        );
        start();
        results_.disk_before = disk_bytes();
        while (step_ < options_.steps && !interrupt_.asked()) {
            one_step();
            bool const is_last = step_ == options_.steps;
            if (options_.validate_every > 0 && (is_last || step_ % options_.validate_every == 0)) {
                results_.validation.push_back({step_, trainer_->validate()});
            }
            if (options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0) {
                save();
            }
        }
        if (!options_.checkpoint.empty() && step_ > 0 && saved_step_ != step_) {
            save();
        }
        note_outcome();
        if (options_.measure_gradient_error && step_ >= options_.steps) {
            results_.gradient_errors = trainer_->measure_gradients(step_);
            results_.gradient_errors->decoded_bytes =
                decoded_bytes(budget_.report()) - decoded_bytes(results_.report);
        }
        if (step_ < options_.steps) {
            results_.error = "interrupted after step " + std::to_string(step_);
            progress_.print(results_.error + saved_words());
            return kInterrupted;
        }
        results_.ok = true;
        progress_.end_line();
        std::printf("%s\n", summary_of(results_).c_str());
        if (results_.report) {
            std::fputs(to_table(*results_.report).c_str(), stdout);
        }
        if (results_.gradient_errors) {
            std::fputs(to_text(*results_.gradient_errors).c_str(), stdout);
        }
        std::fflush(stdout);
        return kDone;
    }

    void start() {
        if (prepared_.resumed) {
            prepared_.resumed->load(trainer_->model(), trainer_->optimizer(), budget_);
            step_ = prepared_.resumed->steps_done();
            note_changes();
            prepared_.resumed.reset();
        }
        results_.first_step = step_;
        if (!options_.trace.empty() && options_.steps - step_ < kTracedSteps) {
            progress_.print("no trace is written: it takes two steps, and fewer are left");
        }
        if (step_ >= options_.steps) {
            progress_.print(
                "nothing to do: " + options_.resume + " is at step " + std::to_string(step_) +
                " of --steps " + std::to_string(options_.steps)
            );
        }
    }

    void note_changes() {
        auto const changed = differences(
            prepared_.resumed->settings().value("run", nlohmann::json{}),
            run_settings(options_, prepared_.shape, prepared_.corpus)
        );
        if (changed.empty()) {
            return;
        }
        std::string line =
            "resumed with other settings, so losses may differ from those of one long run";
        for (std::string const& change : changed) {
            line += "; " + change;
        }
        progress_.print(line);
    }

    void one_step() {
        auto const begin = std::chrono::steady_clock::now();
        auto const before = budget_.report();
        if (!options_.trace.empty() && step_ == options_.steps - kTracedSteps) {
            budget_.trace(options_.trace);
        }
        results_.losses.push_back(trainer_->step(step_));
        synchronize(prepared_.device);
        ++step_;
        std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
        results_.step_seconds.push_back(took.count());
        results_.forward_seconds.push_back(trainer_->forward_seconds());
        show(before, took.count());
    }

    void show(std::optional<Report> const& before, double seconds) {
        StepNews news{
            .step = step_,
            .total = options_.steps,
            .loss = results_.losses.back(),
            .tokens_per_s = static_cast<double>(results_.tokens_per_step) / seconds,
            .seconds_left =
                usual_step_seconds(results_) * static_cast<double>(options_.steps - step_),
            .device = results_.device,
            .device_peak_bytes = device_peak_bytes(),
            .nvme_bytes_per_s = std::nullopt};
        if (auto const after = budget_.report(); after && !options_.session.nvme.empty()) {
            auto const moved = after->nvme_moved_bytes - before->nvme_moved_bytes;
            news.nvme_bytes_per_s = static_cast<double>(moved) / seconds;
        }
        progress_.show(news);
    }

    // From the budget's counter, else from the device's own allocator.
    std::optional<std::int64_t> device_peak_bytes() const {
        auto const counted = budget_.allocator_peak_bytes();
        auto const memory = device_memory(prepared_.device);
        return counted || !memory ? counted : memory->allocated_peak_bytes;
    }

    void save() {
        nlohmann::json const settings{
            {"model", model_settings(prepared_.shape)},
            {"run", run_settings(options_, prepared_.shape, prepared_.corpus)}};
        save_checkpoint(
            options_.checkpoint, step_, settings, trainer_->model(), trainer_->optimizer(), budget_
        );
        saved_step_ = step_;
    }

    std::string saved_words() const {
        if (saved_step_ == step_) {
            return ", checkpoint in " + options_.checkpoint;
        }
        return options_.checkpoint.empty() ? ", without --checkpoint" : ", no checkpoint yet";
    }

    // "step 3, backward: " unless it is a session's, whose words begin so. step_ counts from 0.
    std::string placed(std::exception const& failure, std::string const& what) const {
        std::string const line = first_line(what);
        bool const has_place = dynamic_cast<InStep const*>(&failure) != nullptr;
        if (has_place || !trainer_) {
            return line;
        }
        return "step " + std::to_string(step_ + 1) + ", " +
               std::string{name_of(trainer_->phase())} + ": " + line;
    }

    std::string out_of_memory(c10::OutOfMemoryError const& failure) const {
        std::string const words = placed(failure, failure.what_without_backtrace());
        if (options_.session.device_budget_bytes == 0) {
            return words;
        }
        auto const* const of_budget = dynamic_cast<OutOfBudget const*>(&failure);
        Refusal const refusal = of_budget == nullptr ? Refusal{} : of_budget->refusal();
        return "--device-budget " + typed_words(options_, "device_budget_bytes") + ": " + words +
               "; " + what_would_fit(refusal);
    }

    // Which flag to change, the cheapest first. Only saved tensors can leave the device: outside of
    // forward and backward it is the model and its optimizer that do not fit.
    std::string what_would_fit(Refusal const& refusal) const {
        Phase const phase = trainer_ ? trainer_->phase() : Phase::setup;
        if (phase == Phase::setup || phase == Phase::update) {
            return "a larger --device-budget or a smaller model would make it fit";
        }
        if (!find_policy(options_.session.policy)->moves) {
            return options_.session.nvme.empty()
                       ? "--policy online with --nvme FOLDER would make room"
                       : "--policy online would make room";
        }
        bool const has_host = options_.session.host_budget_bytes > 0 ||
                              (!prepared_.device.is_cpu() && options_.session.nvme.empty());
        if (options_.session.nvme.empty() && !has_host) {
            return "--nvme FOLDER would make room";
        }
        std::string flags = "a larger --device-budget";
        if (refusal.host.state == PoolState::full) {
            flags += ", a larger --host-budget";
            flags += options_.session.nvme.empty() ? ", --nvme FOLDER" : "";
        }
        if (refusal.nvme.state == PoolState::full) {
            flags += ", a larger --nvme-budget";
        }
        if (refusal.nvme.state == PoolState::failed) {
            flags += ", --nvme in another place";
        }
        return flags + " or a smaller --batch would make it fit";
    }

    int fail(int code, std::string const& error) {
        note_outcome();
        results_.error = error;
        progress_.print(error);
        return code;
    }

    static std::int64_t decoded_bytes(std::optional<Report> const& report) {
        std::int64_t bytes = 0;
        for (CodecReport const& row : report ? report->codecs : std::vector<CodecReport>{}) {
            bytes += row.decoded_bytes;
        }
        return bytes;
    }

    void note_outcome() {
        results_.disk_after = disk_bytes();
        results_.report = budget_.report();
        results_.allocator_peak_bytes = budget_.allocator_peak_bytes();
        results_.device_memory = device_memory(prepared_.device);
        results_.process_peak_bytes = process_peak_bytes();
    }

    int write_results(int code) {
        if (options_.json.empty()) {
            return code;
        }
        try {
            write_text_file(options_.json, text_of(results_));
        } catch (FileError const& failure) {
            progress_.print(std::string{"--json: "} + failure.what());
            return code == kDone ? kFailed : code;
        }
        return code;
    }

    TrainOptions const& options_;
    Budget& budget_;
    Prepared prepared_;
    Progress progress_;
    Results results_;
    InterruptWatch const interrupt_;
    std::int64_t step_ = 0;
    std::int64_t saved_step_ = -1;  ///< of this run's newest checkpoint
    std::unique_ptr<Trainer> trainer_;
};

int refused(int code, std::string const& line) {
    std::fprintf(stderr, "spillway: %s\n", line.c_str());
    return code;
}

}  // namespace

int run_training(TrainOptions const& options, Budget& budget) {
    try {
        Run run(options, budget, prepare(options));
        return run.go();
    } catch (BadValue const& failure) {
        return refused(kBadValue, failure.what());
    } catch (std::exception const& failure) {
        return refused(kFailed, first_line(failure.what()));
    }
}

}  // namespace spillway::train
