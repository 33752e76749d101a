// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Our side of bench-hook: the cost of one pack and unpack in a session where nothing has to move.
// Same chain and flags as hook_python.py. Prints one JSON line.

#include "spillway/session.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kAmpleBytes = std::int64_t{4} << 30;

struct Settings {
    std::int64_t products = 500;
    std::int64_t elements = 16;
    std::int64_t rounds = 60;
};

/// Products of the two values before: each saves one new value and one that was saved before.
at::Tensor chain(Settings const& settings) {
    at::Tensor a = torch::ones({settings.elements}, at::requires_grad());
    at::Tensor b = torch::ones({settings.elements}, at::requires_grad());
    for (std::int64_t i = 0; i < settings.products; ++i) {
        at::Tensor product = a * b;
        a = std::exchange(b, std::move(product));
    }
    return b;
}

/// One forward and backward, recorded when `session` is not null.
double step_ns(Settings const& settings, Session* session) {
    auto const begin = std::chrono::steady_clock::now();
    at::Tensor end;
    {
        std::optional<Recording> recording;
        if (session != nullptr) {
            recording.emplace(*session);
        }
        end = chain(settings);
    }
    end.backward(torch::ones({settings.elements}));
    end.reset();
    std::chrono::duration<double, std::nano> const took = std::chrono::steady_clock::now() - begin;
    return took.count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    std::size_t const half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::unique_ptr<Session> ample_session() {
    return Session::open({.device_budget_bytes = kAmpleBytes, .min_value_bytes = 0});
}

/// Time a step on stock torch, in turns with the rest so that drift falls on all.
struct Turn {
    double stock_ns = 0;
    double session_ns = 0;  ///< in a session that does not record
    double recorded_ns = 0;
};

class Measurement {
  public:
    explicit Measurement(Settings const& settings) : settings_(settings) {}

    void run() {
        std::int64_t const warm_up = settings_.rounds / 4 + 1;
        for (std::int64_t turn = 0; turn < settings_.rounds + warm_up; ++turn) {
            Turn const now = take();
            if (turn >= warm_up) {
                turns_.push_back(now);
            }
        }
    }

    void print() const {
        auto const packs = static_cast<double>(2 * settings_.products);
        auto const share = static_cast<double>(last_.saved_tensors - last_.passed_tensors) /
                           static_cast<double>(last_.saved_tensors);
        std::printf(
            "{\"hooks_ns\": %.2f, \"session_ns\": %.2f, \"without_ns\": %.2f, \"packs\": %.0f, "
            "\"registered_share\": %.4f, \"moved_bytes\": %lld}\n",
            each([](Turn const& turn) { return turn.recorded_ns - turn.session_ns; }) / packs,
            each([](Turn const& turn) { return turn.recorded_ns - turn.stock_ns; }) / packs,
            each([](Turn const& turn) { return turn.session_ns; }) / packs,
            packs,
            share,
            static_cast<long long>(last_.stored_bytes)
        );
    }

  private:
    Turn take() {
        Turn turn;
        turn.stock_ns = step_ns(settings_, nullptr);
        auto const session = ample_session();
        (void)step_ns(settings_, nullptr);  // the arena's pages are touched for the first time
        turn.session_ns = step_ns(settings_, nullptr);
        turn.recorded_ns = step_ns(settings_, session.get());
        last_ = session->report();
        return turn;
    }

    template <typename Of>
    [[nodiscard]] double each(Of of) const {
        std::vector<double> values;
        for (Turn const& turn : turns_) {
            values.push_back(of(turn));
        }
        return median(std::move(values));
    }

    Settings const settings_;
    std::vector<Turn> turns_;
    Report last_;
};

}  // namespace
}  // namespace spillway

int main(int count, char** words) {
    spillway::Settings settings;
    CLI::App app{"Cost of one pack and unpack in a session where nothing moves."};
    app.add_option("--products", settings.products, "in a chain")->check(CLI::PositiveNumber);
    app.add_option("--elements", settings.elements, "of each tensor")->check(CLI::PositiveNumber);
    app.add_option("--rounds", settings.rounds, "measured chains")->check(CLI::PositiveNumber);
    CLI11_PARSE(app, count, words);
    at::set_num_threads(1);
    spillway::Measurement measurement(settings);
    measurement.run();
    measurement.print();
    return 0;
}
