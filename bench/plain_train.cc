// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// `spillway train` without Spillway: the same model, text, loop and flags on stock torch, with
// libspillway.so neither linked nor loaded. What measurements call "plain".

#include "train/budget.h"
#include "train/run.h"
#include "train_flags.h"

#include <CLI/CLI.hpp>

#include <cstdio>

int main(int count, char** words) {
    constexpr int kBadValue = 2;
    CLI::App app{"Trains as `spillway train` does, on stock torch alone."};
    spillway::TrainOptions options;
    spillway::cli::add_train_flags(app, options);
    try {
        app.parse(count, words);
        spillway::cli::read_sizes(options);
    } catch (CLI::Success const& asked) {
        return app.exit(asked);
    } catch (CLI::ParseError const& failure) {
        std::fprintf(stderr, "plain_train: %s\n", failure.what());
        return kBadValue;
    }
    if (options.session.device_budget_bytes > 0 || options.count_allocations) {
        std::fprintf(stderr, "plain_train: there is no session here to cap or count with\n");
        return kBadValue;
    }
    spillway::train::Budget none;
    return spillway::train::run_training(options, none);
}
