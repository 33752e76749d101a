// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/out_of_memory.h"

#include "spillway/session_error.h"
#include "torch_driver/device/c10_device.h"

#include <cstdint>
#include <string>
#include <utility>

namespace spillway {

namespace {

char const* words_of_finders(Device const& device) {
    if (device.is_host()) {
        return "DefaultCPUAllocator: can't allocate memory";
    }
    auto const* const c10 = dynamic_cast<C10Device const*>(&device);
    return c10 != nullptr && c10->where().is_cuda() ? "CUDA out of memory."
                                                    : "the device is out of memory.";
}

/// Whose budget it is, and what ends it.
std::string words_of_budget(RefusedAllocation const& refused) {
    if (refused.face != Face::python) {
        return std::string("the budget of a Spillway session") +
               (refused.caps_from_open ? "" : ", which session.end_cap() ends");
    }
    std::string const& opened_at = refused.refusal.opened_at;
    return "the device_budget of the spillway.session" +
           (opened_at.empty() ? "" : " opened at " + opened_at) + ", which its close() ends";
}

/// How to learn the rest.
std::string words_to_go_on(RefusedAllocation const& refused, Device const& device) {
    NoRoom const why = refused.refusal.why;
    std::string const works =
        why == NoRoom::no_pool || why == NoRoom::pools_full
            ? "the smallest that works where all saved tensors can move; else more is needed"
            : "the smallest that works";
    if (refused.face == Face::program) {
        return "A run of two steps with a larger --device-budget prints \"needed at least\", " +
               works;
    }
    std::string const learn =
        refused.face == Face::python && why == NoRoom::no_pool
            ? "spillway.fit(model, step) tells which budgets work without one"
            : "Run two steps with a larger budget: device_needed_bytes in its report is " + works;
    return learn + " (this is " + words_of_budget(refused) +
           ", not the machine's memory; batch-size finders search for this text: " +
           words_of_finders(device) + ")";
}

}  // namespace

void raise_out_of_memory(RefusedAllocation refused, Device const& device) {
    std::string words = refused.place + ": " + refused.why + "." + refused.estimate + " ";
    if (refused.is_left) {
        words +=
            "The session was left, and its budget holds for this thread as long as what it "
            "recorded lives (a loss, an output, an error's traceback). ";
    }
    words += words_to_go_on(refused, device);
    throw OutOfBudget(
        {__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
        std::move(words),
        std::move(refused.refusal)
    );
}

}  // namespace spillway
