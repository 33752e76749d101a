// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A step on the late accelerator in virtual time, where operators and copies take as long as they
// are told: what do our waits cost when the copies could hide behind compute? Prints one JSON line.

#include "late/late.h"
#include "spillway/session.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

using at::Tensor;

constexpr std::int64_t kLayers = 96;
constexpr std::int64_t kRows = 256;
constexpr std::int64_t kWidth = 32;  // a value of 32 KiB, a weight of 4 KiB
constexpr int kSteps = 4;            // the last is measured
constexpr std::int64_t kValueBytes = kRows * kWidth * 4;

/// Nanoseconds a byte. Matrix products are what takes time; elementwise work is cheap.
struct Speeds {
    double product = 8.0;
    double elementwise = 0.5;
    double copy = 0.0;
};

Speeds speeds;

std::int64_t duration(std::string_view op, std::int64_t size_bytes) {
    double const ns_a_byte = op.starts_with("copy_d2h") || op.starts_with("copy_h2d") ? speeds.copy
                             : op.find("mm") != std::string_view::npos ? speeds.product
                                                                       : speeds.elementwise;
    return static_cast<std::int64_t>(ns_a_byte * static_cast<double>(size_bytes));
}

std::vector<Tensor> weights(at::Device device) {
    std::vector<Tensor> all;
    for (std::int64_t i = 0; i < 2 * kLayers; ++i) {
        Tensor const drawn = at::randn({kWidth, kWidth}) / 8;
        all.push_back(drawn.to(device).requires_grad_());
    }
    return all;
}

Tensor forward(Tensor x, std::vector<Tensor> const& all) {
    for (std::size_t i = 0; i < all.size(); i += 2) {
        x = x + at::mm(at::gelu(at::mm(x, all[i])), all[i + 1]);
    }
    return x.mul(x).mean();
}

struct Measured {
    std::int64_t step_ns = 0;
    std::int64_t forward_ns = 0;
    spillway::Report report{};
    std::int64_t step_stored_bytes = 0;
    std::vector<Tensor> gradients{};
};

void wait() {
    c10::impl::VirtualGuardImpl(c10::kPrivateUse1).synchronizeDevice(0);
}

/// Trains a few steps and measures the last.
Measured train(spillway::SessionOptions const& options) {
    at::manual_seed(1);
    c10::Device const device(c10::kPrivateUse1, 0);
    auto session = spillway::Session::open(options);
    std::vector<Tensor> const all = weights(device);
    session->own(all);
    Tensor const input = at::randn({kRows, kWidth}).to(device);
    Measured measured;
    for (int step = 0; step < kSteps; ++step) {
        for (Tensor const& weight : all) {
            weight.mutable_grad() = Tensor();
        }
        std::int64_t const stored_before = session->report().stored_bytes;
        wait();
        std::int64_t const begin = late::virtual_now();
        session->phase(spillway::Phase::forward, step);
        Tensor loss;
        {
            spillway::Recording const recording(*session);
            loss = forward(input, all);
        }
        measured.forward_ns = late::virtual_now() - begin;
        session->phase(spillway::Phase::backward, step);
        loss.backward();
        session->phase(spillway::Phase::update, step);
        wait();
        measured.step_ns = late::virtual_now() - begin;
        measured.report = session->report();
        measured.step_stored_bytes = measured.report.stored_bytes - stored_before;
    }
    for (Tensor const& weight : all) {
        measured.gradients.push_back(weight.grad().cpu());
    }
    return measured;
}

bool same(std::vector<Tensor> const& one, std::vector<Tensor> const& other) {
    return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](auto& a, auto& b) {
        return at::equal(a, b);
    });
}

}  // namespace

int main(int argc, char** argv) {
    int const seeds = argc > 1 ? std::atoi(argv[1]) : 50;
    late::install();
    at::set_num_threads(1);
    late::configure({.mode = late::Mode::virtual_time, .duration = duration});

    spillway::SessionOptions options;
    options.device = "late";
    options.min_value_bytes = 1024;
    options.policy = "keep_all";
    Measured const plain = train(options);
    std::int64_t const saved_bytes = plain.report.saved_bytes / kSteps;
    std::int64_t const peak_bytes = plain.report.device_peak_bytes;

    // All saved bytes take seven tenths of forward's products to leave, and as long to return.
    double const products_ns = speeds.product * 2.0 * kLayers * 2 * kValueBytes;
    speeds.copy = 0.7 * products_ns / static_cast<double>(saved_bytes);
    late::reset_peak(0);
    options.policy = "online";
    options.host_budget_bytes = 4 * saved_bytes;
    options.device_budget_bytes = peak_bytes - saved_bytes * 16 / 20;
    Measured const moved = train(options);
    bool equal = same(plain.gradients, moved.gradients);
    std::int64_t highest_bytes = late::stats().devices[0].peak_bytes;
    std::size_t reports = late::reports().size();
    for (int seed = 1; seed <= seeds; ++seed) {
        late::configure({.seed = static_cast<std::uint64_t>(seed)});
        late::reset_peak(0);
        Measured const any = train(options);
        highest_bytes = std::max(highest_bytes, late::stats().devices[0].peak_bytes);
        reports += late::reports().size();
        equal = equal && same(plain.gradients, any.gradients);
    }
    nlohmann::json const line{
        {"plain_step_ns", plain.step_ns},
        {"step_ns", moved.step_ns},
        {"saved_bytes", saved_bytes},
        {"moved_bytes", moved.step_stored_bytes},
        {"copy_share_of_products", 0.7},
        {"plain_peak_bytes", peak_bytes},
        {"budget_bytes", options.device_budget_bytes},
        {"peak_bytes", highest_bytes},
        {"seeds", seeds},
        {"gradients_equal", equal},
        {"checker_reports", reports}};
    std::puts(line.dump().c_str());
    return 0;
}
