// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/transfer.h"

#include <pthread.h>
#include <signal.h>

namespace spillway {

void enter_io_thread(char const* name) {
    sigset_t all{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    ::pthread_setname_np(::pthread_self(), name);
}

}  // namespace spillway
