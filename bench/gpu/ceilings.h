// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the links between host and device can do: one way and both ways at once, from pinned and
// from pageable memory, by torch's own copies of large blocks.
#pragma once

#include "train/device.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace spillway::bench {

/// One direction: a block there and a block here, copied on a stream of its own.
struct Way {
    at::Tensor to;
    at::Tensor from;
    c10::Stream stream;

    void enqueue() {
        c10::StreamGuard const guard(stream);
        to.copy_(from, /*non_blocking=*/true);
    }
};

inline Way way(c10::Device device, std::int64_t size_bytes, bool out, bool pinned) {
    auto const bytes = at::TensorOptions().dtype(at::kByte);
    at::Tensor const here =
        at::empty({size_bytes}, bytes.pinned_memory(pinned && !device.is_cpu())).fill_(1);
    at::Tensor const there = at::empty({size_bytes}, bytes.device(device)).fill_(2);
    c10::impl::VirtualGuardImpl const guard(device.type());
    auto const stream =
        device.is_cpu() ? guard.getStream(device) : guard.getStreamFromGlobalPool(device);
    return out ? Way{here, there, stream} : Way{there, here, stream};
}

/// Bytes a second of each of the ways, all of them at the same time; the best of some rounds.
inline double rate_of(c10::Device device, std::vector<Way> ways) {
    constexpr int kRounds = 4;
    constexpr int kCopies = 4;
    double best = 0;
    for (int round = 0; round < kRounds; ++round) {
        train::synchronize(device);
        auto const begin = std::chrono::steady_clock::now();
        for (int copy = 0; copy < kCopies; ++copy) {
            for (Way& way : ways) {
                way.enqueue();
            }
        }
        train::synchronize(device);
        std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
        auto const moved = static_cast<double>(kCopies) * static_cast<double>(ways[0].to.nbytes());
        best = std::max(best, moved / took.count());
    }
    return best;
}

/// On the CPU both sides are host memory, and the numbers say nothing; there it is for tests.
inline nlohmann::ordered_json ceilings(c10::Device device, std::int64_t size_bytes) {
    nlohmann::ordered_json rates;
    for (bool const pinned : {true, false}) {
        std::string const memory = pinned ? "pinned" : "pageable";
        auto const one = [&](bool out) { return way(device, size_bytes, out, pinned); };
        rates["out_" + memory + "_bytes_per_s"] = rate_of(device, {one(true)});
        rates["in_" + memory + "_bytes_per_s"] = rate_of(device, {one(false)});
        if (pinned) {
            rates["both_ways_pinned_bytes_per_s"] = rate_of(device, {one(true), one(false)});
        }
    }
    rates["block_bytes"] = size_bytes;
    return rates;
}

}  // namespace spillway::bench
