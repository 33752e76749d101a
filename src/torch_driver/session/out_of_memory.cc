// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/out_of_memory.h"

#include "torch_driver/device/c10_device.h"

#include <c10/util/Exception.h>

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

}  // namespace

void raise_out_of_memory(RefusedAllocation const& refused, Device const& device) {
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        false,
        refused.place,
        ": ",
        refused.why,
        ".",
        refused.estimate,
        " ",
        refused.is_left
            ? "The session was left, and its budget holds for this thread as long as what it "
              "recorded lives (a loss, an output, an error's traceback). "
            : "",
        "Run one step with a larger budget: device_needed_bytes in its report is the smallest that "
        "works (this is the budget of a Spillway session",
        refused.caps_from_open ? "" : ", which session.close() ends",
        ", not the machine's memory; tools that try a smaller batch look for: ",
        words_of_finders(device),
        ")"
    );
}

}  // namespace spillway
