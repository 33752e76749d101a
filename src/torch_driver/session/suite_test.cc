// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The suite on the CPU.

#include "torch_driver/suite/suite.h"

namespace spillway {

Suite const& suite() {
    static Suite const cpu{
        .device = c10::Device(c10::kCPU),
        .open = [](SessionOptions const& options, std::unique_ptr<Tier> tier, bool) {
            return open_session_on(options, open_session_device(options), nullptr, std::move(tier));
        }};
    return cpu;
}

}  // namespace spillway
