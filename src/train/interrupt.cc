// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace spillway::train {

namespace {

constexpr int kExitInterrupted = 130;

// A handler sees nothing but globals.
std::atomic<int> signals_seen{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

extern "C" void on_signal(int /*signal*/) {
    if (signals_seen.fetch_add(1) > 0) {
        ::_exit(kExitInterrupted);
    }
    constexpr char kLine[] = "\nspillway: ending after this step; once more ends at once\n";
    [[maybe_unused]] auto const written = ::write(STDERR_FILENO, kLine, std::strlen(kLine));
}

void handle_with(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptWatch::InterruptWatch() {
    signals_seen = 0;
    handle_with(on_signal);
}

InterruptWatch::~InterruptWatch() {
    handle_with(SIG_DFL);
}

bool InterruptWatch::asked() const {
    return signals_seen > 0;
}

}  // namespace spillway::train
