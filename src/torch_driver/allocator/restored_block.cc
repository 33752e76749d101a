// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/restored_block.h"

#include "base/ordering_rules.h"

#include <c10/core/Event.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

namespace spillway {

namespace {

struct RestoredBlock {
    std::shared_ptr<Device> device;
    void* memory = nullptr;
    c10::Stream own;
    std::mutex mutex{};
    c10::SmallVector<c10::Stream, 2> users{};  ///< beside `own`
};

/// Where there is no event to be had.
void wait_for(c10::Stream const& stream) {
    try {
        stream.synchronize();
    } catch (std::exception const&) {  // the device has failed, which torch's next call reports
    }
}

void order(c10::Stream const& earlier, c10::Stream const& later) {
    try {
        c10::Event event(earlier.device_type());
        event.record(earlier);
        event.block(later);
    } catch (std::exception const&) {
        wait_for(earlier);
    }
}

void free_restored(void* context) {
    std::unique_ptr<RestoredBlock> const block(static_cast<RestoredBlock*>(context));
    for (c10::Stream const& user : block->users) {
        if (keeps(OrderingRule::free_waits_for_every_user)) {
            order(user, block->own);
        }
    }
    block->device->free(block->memory);
}

}  // namespace

c10::DataPtr restored_block(std::shared_ptr<Device> device, void* memory, c10::Stream own) {
    auto* const block = new RestoredBlock{std::move(device), memory, own};
    return {memory, block, &free_restored, own.device()};
}

bool is_restored(c10::DataPtr const& data) {
    return data.get_deleter() == &free_restored;
}

bool add_user(c10::DataPtr const& data, c10::Stream stream) {
    if (!is_restored(data)) {
        return false;
    }
    auto& block = *static_cast<RestoredBlock*>(data.get_context());
    std::lock_guard const lock(block.mutex);
    auto& users = block.users;
    if (stream != block.own && std::find(users.begin(), users.end(), stream) == users.end()) {
        users.push_back(stream);
    }
    return true;
}

}  // namespace spillway
