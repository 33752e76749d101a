// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/device_blocks.h"

#include "base/ordering_rules.h"
#include "torch_driver/allocator/restored_block.h"

#include <utility>

namespace spillway {

DeviceBlocks::DeviceBlocks(std::shared_ptr<Device> device, TorchPlace place)
    : device_(std::move(device)), place_(place) {}

bool DeviceBlocks::is_block_of(c10::StorageImpl const& storage) const {
    c10::DataPtr const& data = storage.data_ptr();
    bool const is_whole = data.get_deleter() == place_.free_block || is_restored(data);
    return is_whole && device_->owns(data.get());
}

bool DeviceBlocks::stream_is_known(void const* block) const {
    return device_->is_host() || device_->stream_of(block).valid();
}

void DeviceBlocks::add_current_user(c10::StorageImpl const& storage) const {
    if (!device_->is_host()) {
        add_user(storage.data_ptr(), stream_of_torch(device_->current_stream()));
    }
}

void DeviceBlocks::order(StreamId earlier, StreamId later) const {
    if (!device_->is_host() && earlier.valid() && later.valid() && earlier != later) {
        device_->wait(later, device_->record(earlier));
    }
}

void DeviceBlocks::wait_for_all(c10::ArrayRef<StreamId> users) const {
    for (std::size_t i = 1; i < users.size(); ++i) {
        if (keeps(OrderingRule::drop_waits_for_every_user)) {
            device_->wait(users.front(), device_->record(users[i]));
        }
    }
}

c10::Stream DeviceBlocks::stream_of_torch(StreamId stream) const {
    return c10::Stream(c10::Stream::UNSAFE, place_.device, stream.number);
}

c10::DataPtr DeviceBlocks::data_of(void* memory, StreamId user, StreamId home) const {
    if (device_->is_host()) {
        return {memory, memory, place_.free_block, place_.device};
    }
    c10::DataPtr data = restored_block(device_, memory, stream_of_torch(user));
    add_user(data, stream_of_torch(home));
    return data;
}

c10::Storage DeviceBlocks::came_back(c10::Storage&& storage, StreamId home) const {
    if (device_->is_host() || !is_block_of(*storage.unsafeGetStorageImpl())) {
        return std::move(storage);
    }
    std::size_t const size_bytes = storage.nbytes();
    void* const memory = storage.set_data_ptr({}).release_context();
    return storage_of(data_of(memory, device_->current_stream(), home), size_bytes);
}

c10::Storage DeviceBlocks::storage_of(c10::DataPtr data, std::size_t size_bytes) const {
    return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(),
        size_bytes,
        std::move(data),
        c10::GetAllocator(place_.device.type()),
        true
    ));
}

}  // namespace spillway
