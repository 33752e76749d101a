// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/forks.h"

#include <pthread.h>

#include <atomic>

namespace spillway {

namespace {

std::atomic<int> forks = 0;

// Registered when the library is loaded, which is before any session.
int const registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });

}  // namespace

int forks_so_far() {
    (void)registered;
    return forks.load(std::memory_order_relaxed);
}

}  // namespace spillway
