// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The budget that is a Spillway session, and the function that the program looks up. The only file
// of this folder that needs libspillway.so.

#include "spillway/session.h"
#include "spillway/train.h"
#include "train/bad_value.h"
#include "train/budget.h"
#include "train/device.h"
#include "train/run.h"
#include "train/settings.h"

#include <memory>
#include <string>
#include <vector>

namespace spillway::train {

namespace {

class Recorded : public Budget::Scope {
  public:
    explicit Recorded(Session& session) : recording_(session) {}

  private:
    Recording recording_;
};

/// With a device budget: a session. Without: nothing, or the pass-through that only counts.
class SessionBudget : public Budget {
  public:
    explicit SessionBudget(TrainOptions const& options) : options_(options) {}

    void prepare() override {
        if (options_.count_allocations && device_is_cpu()) {
            count_plain_allocations();
        }
    }

    void open() override {
        SessionOptions asked = options_.session;
        if (asked.device_budget_bytes == 0) {
            return;
        }
        asked.whole_process = true;
        asked.rounding_seed = options_.seed;
        asked.face = Face::program;
        asked.keep_timeline = true;  // and in which module each tensor was saved, for the report
        try {
            session_ = Session::open(asked);
        } catch (BadOption const& bad) {
            refuse(
                option_name(bad.fault().option, Face::program),
                typed_words(options_, bad.fault().option),
                words_of(bad.fault(), Face::program)
            );
        }
    }

    void own(
        std::vector<at::Tensor> const& tensors,
        std::vector<std::string> const& names,
        std::vector<OwnedKind> const& kinds
    ) override {
        if (session_) {
            session_->own(tensors, names, kinds);
        }
    }

    void let_leave(std::vector<at::Tensor> const& states) override {
        if (session_) {
            session_->let_leave(states);
        }
    }

    void bring_back(std::vector<at::Tensor> const& states) override {
        if (session_) {
            session_->bring_back(states);
        }
    }

    void phase(Phase phase, std::int64_t step) override {
        if (session_) {
            session_->phase(phase, step);
        }
    }

    void exact(bool on) override {
        if (session_) {
            session_->exact(on);
        }
    }

    void trace(std::string const& file) override {
        if (session_) {
            try {
                session_->trace(file);
            } catch (BadOption const& bad) {
                refuse("--trace", file, words_of(bad.fault(), Face::program));
            }
        }
    }

    std::unique_ptr<Scope> record() override {
        return session_ ? std::make_unique<Recorded>(*session_) : nullptr;
    }

    std::optional<Report> report() const override {
        return session_ ? std::optional{session_->report()} : std::nullopt;
    }

    std::optional<std::int64_t> allocator_peak_bytes() const override {
        if (session_) {
            return session_->report().device_peak_bytes;
        }
        return options_.count_allocations ? counted_bytes() : std::nullopt;
    }

  private:
    /// On an accelerator its own allocator counts.
    [[nodiscard]] std::optional<std::int64_t> counted_bytes() const {
        if (device_is_cpu()) {
            return plain_allocation_peak_bytes();
        }
        auto const memory = device_memory(device_of(options_.session.device));
        return memory ? std::optional{memory->allocated_peak_bytes} : std::nullopt;
    }

    [[nodiscard]] bool device_is_cpu() const { return device_of(options_.session.device).is_cpu(); }

    TrainOptions const& options_;
    std::unique_ptr<Session> session_;
};

}  // namespace

}  // namespace spillway::train

extern "C" int spillway_train(spillway::TrainOptions const* options) {
    spillway::train::SessionBudget budget(*options);
    return spillway::train::run_training(*options, budget);
}
