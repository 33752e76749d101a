// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/states/owned_storages.h"

#include "torch_driver/states/storage_bytes.h"

#include <cstddef>

namespace spillway {

void OwnedStorages::add(
    std::vector<at::Tensor> const& tensors,
    std::vector<std::string> const& names,
    std::vector<OwnedKind> const& kinds
) {
    MutexLock const lock(mutex_);
    std::erase_if(owned_, [](auto const& item) { return item.second.storage.expired(); });
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        at::Tensor const& tensor = tensors[i];
        if (!tensor.defined() || !tensor.has_storage()) {
            continue;
        }
        bool const is_trained = tensor.is_leaf() && tensor.requires_grad();
        OwnedKind const guess = is_trained ? OwnedKind::parameter : OwnedKind::buffer;
        bool const has_name = i < names.size() && !names[i].empty();
        owned_.insert_or_assign(
            tensor.storage().unsafeGetStorageImpl(),
            Owned{
                tensor.storage().getWeakStorageImpl(),
                i < kinds.size() ? kinds[i] : guess,
                has_name ? std::make_shared<std::string const>(names[i]) : nullptr}
        );
    }
}

void OwnedStorages::forget(c10::StorageImpl const& storage) {
    MutexLock const lock(mutex_);
    owned_.erase(&storage);
}

bool OwnedStorages::has(c10::StorageImpl const& storage) const {
    MutexLock const lock(mutex_);
    return owned_.count(&storage) != 0;
}

std::optional<OwnedKind> OwnedStorages::kind_of(c10::StorageImpl const& storage) const {
    MutexLock const lock(mutex_);
    auto const at = owned_.find(&storage);
    return at == owned_.end() ? std::nullopt : std::optional(at->second.kind);
}

std::shared_ptr<std::string const> OwnedStorages::name_of(c10::StorageImpl const& storage) const {
    MutexLock const lock(mutex_);
    auto const at = owned_.find(&storage);
    return at == owned_.end() ? nullptr : at->second.name;
}

OwnedStorages::Living OwnedStorages::living() const {
    Living all;
    MutexLock const lock(mutex_);
    for (auto const& [impl, owned] : owned_) {
        c10::intrusive_ptr<c10::StorageImpl> storage = owned.storage.lock();
        if (storage.defined() && storage->device() == where_) {
            all.emplace_back(std::move(storage), owned.kind);
        }
    }
    return all;
}

OwnedBytes OwnedStorages::bytes() const {
    OwnedBytes bytes{};
    for (auto const& [storage, kind] : living()) {
        bytes[static_cast<std::size_t>(kind)] += bytes_in(*storage);
    }
    return bytes;
}

std::int64_t OwnedStorages::outside_bytes() const {
    std::int64_t bytes = 0;
    for (auto const& [storage, kind] : living()) {
        bool const is_outside = !is_only_a_size(*storage) && !device_->owns(storage->data());
        bytes += is_outside ? bytes_in(*storage) : 0;
    }
    return bytes;
}

}  // namespace spillway
