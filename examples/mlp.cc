// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Trains a deep MLP under 64 MiB of device memory; what does not fit waits in a nameless file here.
#include "spillway/session.h"
#include "spillway/units.h"

#include <torch/torch.h>

#include <cstdio>

int main() {
    using namespace spillway::literals;

    // First the session: from here on, what torch allocates on this thread is counted and capped.
    auto session = spillway::Session::open({.device_budget_bytes = 64_MiB, .nvme = "."});

    torch::manual_seed(0);
    torch::nn::Sequential model;
    for (int i = 0; i < 24; ++i) {
        model->push_back(torch::nn::Linear(256, 256));
        model->push_back(torch::nn::GELU());
    }
    session->own(model->parameters());  // never moved
    torch::optim::Adam optimizer(model->parameters(), 1e-3);
    torch::Tensor const input = torch::randn({4096, 256});

    for (int step = 1; step <= 3; ++step) {
        session->phase(spillway::Phase::forward, step);
        torch::Tensor loss;
        {
            spillway::Recording const recording(*session);  // what autograd saves here may leave
            loss = (model->forward(input) - input).pow(2).mean();
        }
        session->phase(spillway::Phase::backward, step);
        loss.backward();
        session->phase(spillway::Phase::update, step);
        optimizer.step();
        optimizer.zero_grad();
        std::printf("step %d  loss %.6f\n", step, loss.item<double>());
    }
    spillway::Report const report = session->report();
    std::printf(
        "device peak %s of %s, %s written\n",
        spillway::format_size(report.device_peak_bytes).c_str(),
        spillway::format_size(report.device_limit_bytes).c_str(),
        spillway::format_size(report.stored_bytes).c_str()
    );
}
