// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The budget of a measured run: it sees each phase begin, so it notes the times, scopes what the
// mode saves, and looks at the gradients of the last step before the update takes them.
#pragma once

#include "gpu/modes.h"
#include "spillway/session.h"
#include "train/budget.h"
#include "train/random.h"

#include <ATen/ops/arange.h>
#include <c10/core/Event.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace spillway::bench {

enum class Mode { plain, checkpoint, save_on_cpu, spillway, qpo };

[[nodiscard]] inline bool is_ours(Mode mode) {
    return mode == Mode::spillway || mode == Mode::qpo;
}

/// A moment on the device's current stream, or of the host where that computes.
class Moment {
  public:
    explicit Moment(c10::Device device) {
        if (!device.is_cpu()) {
            event_.emplace(device.type(), c10::EventFlag::BACKEND_DEFAULT);
            event_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
        }
    }
    /// After both have passed.
    [[nodiscard]] double seconds_until(Moment const& later) const {
        if (event_) {
            return event_->elapsedTime(*later.event_) / 1e3;
        }
        return std::chrono::duration<double>(later.time_ - time_).count();
    }

  private:
    std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
    std::optional<c10::Event> event_;
};

/// What the gradients are: one number that any changed bit changes, and each parameter's norm.
struct Gradients {
    std::uint64_t hash = 0;
    std::vector<double> norms;
};

/// A sum over all elements' bits, each times an odd number of its place: in whole numbers, so that
/// the order of adding does not matter.
inline std::uint64_t hash_of(at::Tensor const& tensor) {
    constexpr std::int64_t kChunk = std::int64_t{1} << 21U;
    at::Tensor const bits = tensor.contiguous().view({-1}).view(at::kInt);
    std::uint64_t hash = 0;
    for (std::int64_t begin = 0; begin < bits.numel(); begin += kChunk) {
        std::int64_t const count = std::min(kChunk, bits.numel() - begin);
        at::Tensor const place = at::arange(count, bits.options().dtype(at::kLong)) * 2 + 1;
        at::Tensor const part = bits.narrow(0, begin, count).to(at::kLong);
        auto const sum = (part * place).sum().item<std::int64_t>();
        hash = train::mixed({static_cast<std::int64_t>(hash), sum});
    }
    return hash;
}

inline Gradients gradients_of(std::vector<at::Tensor> const& parameters) {
    at::NoGradGuard const no_grad;
    Gradients found;
    for (at::Tensor const& parameter : parameters) {
        at::Tensor const& gradient = parameter.grad();
        auto const hash = gradient.defined() ? hash_of(gradient) : 0;
        found.hash =
            train::mixed({static_cast<std::int64_t>(found.hash), static_cast<std::int64_t>(hash)});
        found.norms.push_back(gradient.defined() ? gradient.norm().item<double>() : 0.0);
    }
    return found;
}

/// Order  open, then steps; `keep_gradients` before the step whose gradients are wanted
class Measured : public train::Budget {
  public:
    Measured(Mode mode, c10::Device device, SessionOptions session)
        : mode_(mode), device_(device), options_(std::move(session)) {}

    void open() override {
        if (is_ours(mode_)) {
            session_ = Session::open(options_);
        } else if (mode_ == Mode::save_on_cpu) {
            HookingEngine::install();
        }
    }
    void own(
        std::vector<at::Tensor> const& tensors,
        std::vector<std::string> const& names,
        std::vector<spillway::OwnedKind> const& kinds
    ) override {
        if (session_) {
            session_->own(tensors, names, kinds);
        }
    }
    void phase(Phase phase, std::int64_t step) override {
        if (phase == Phase::update && parameters_) {
            gradients_ = gradients_of(*std::exchange(parameters_, std::nullopt));
        }
        if (session_) {
            session_->phase(phase, step);
        }
        moments_.emplace_back(device_);
    }
    std::unique_ptr<Scope> record() override {
        if (session_) {
            return std::make_unique<Recorded>(*session_);
        }
        return mode_ == Mode::save_on_cpu ? std::make_unique<Hooked>(moved_) : nullptr;
    }
    std::optional<Report> report() const override {
        return session_ ? std::optional{session_->report()} : std::nullopt;
    }

    void keep_gradients(std::vector<at::Tensor> parameters) { parameters_ = std::move(parameters); }
    [[nodiscard]] Gradients const& gradients() const { return gradients_; }
    [[nodiscard]] MovedBytes const& moved() const { return moved_; }

    /// The moments of the phases since the last call: forward, backward, update.
    [[nodiscard]] std::vector<Moment> take_moments() { return std::exchange(moments_, {}); }

  private:
    class Recorded : public Scope {
      public:
        explicit Recorded(Session& session) : recording_(session) {}

      private:
        Recording recording_;
    };
    class Hooked : public Scope {
      public:
        explicit Hooked(MovedBytes& moved) { HookingEngine::wanted() = &moved; }
        ~Hooked() override { HookingEngine::wanted() = nullptr; }
        Hooked(Hooked const&) = delete;
        Hooked& operator=(Hooked const&) = delete;
    };

    Mode mode_;
    c10::Device device_;
    SessionOptions options_;
    std::unique_ptr<Session> session_;
    MovedBytes moved_;
    std::vector<Moment> moments_;
    std::optional<std::vector<at::Tensor>> parameters_;
    Gradients gradients_;
};

}  // namespace spillway::bench
