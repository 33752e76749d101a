// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/restored_block.h"

#include "base/rules.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace spillway {

namespace {

struct RestoredBlock {
    std::shared_ptr<Device> device;
    void* memory = nullptr;
    StreamId own;
    std::mutex mutex{};
    c10::SmallVector<StreamId, 2> users{};  ///< beside `own`
};

void free_restored(void* context) {
    std::unique_ptr<RestoredBlock> const block(static_cast<RestoredBlock*>(context));
    Device& device = *block->device;
    for (StreamId const user : block->users) {
        if (keeps(Rule::free_waits_for_every_user)) {
            device.wait(block->own, device.record(user));
        }
    }
    device.free(block->memory);
}

}  // namespace

c10::DataPtr restored_block(
    std::shared_ptr<Device> device, c10::Device where, void* memory, StreamId own
) {
    auto* const block = new RestoredBlock{std::move(device), memory, own};
    return {memory, block, &free_restored, where};
}

bool is_restored(c10::DataPtr const& data) {
    return data.get_deleter() == &free_restored;
}

bool add_user(c10::DataPtr const& data, StreamId stream) {
    if (!is_restored(data)) {
        return false;
    }
    auto& block = *static_cast<RestoredBlock*>(data.get_context());
    std::lock_guard const lock(block.mutex);
    bool const is_known =
        std::find(block.users.begin(), block.users.end(), stream) != block.users.end();
    if (stream != block.own && !is_known) {
        block.users.push_back(stream);
    }
    return true;
}

}  // namespace spillway
