// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/states/living_gradients.h"

#include "torch_driver/states/storage_bytes.h"

#include <utility>

namespace spillway {

void LivingGradients::add(std::vector<at::Tensor> const& tensors) {
    MutexLock const lock(mutex_);
    if (leaves_.size() >= prune_at_) {
        std::erase_if(leaves_, [](auto const& leaf) { return leaf.second.expired(); });
        prune_at_ = 2 * leaves_.size() + 64;
    }
    for (at::Tensor const& tensor : tensors) {
        if (tensor.defined() && tensor.is_leaf() && tensor.requires_grad()) {
            leaves_.insert_or_assign(
                tensor.unsafeGetTensorImpl(),
                c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr())
            );
        }
    }
}

void LivingGradients::clear() {
    MutexLock const lock(mutex_);
    leaves_.clear();
}

std::int64_t LivingGradients::bytes(std::unordered_set<c10::StorageImpl const*> counted) const {
    std::vector<at::Tensor> living;  // let go of after the lock: that may wait for Python's
    {
        MutexLock const lock(mutex_);
        living.reserve(leaves_.size());
        for (auto const& [address, leaf] : leaves_) {
            if (auto held = leaf.lock(); held.defined()) {
                living.emplace_back(std::move(held));
            }
        }
    }
    std::int64_t bytes = 0;
    for (at::Tensor const& leaf : living) {
        at::Tensor const& gradient = leaf.grad();
        if (!gradient.defined() || !gradient.has_storage() || gradient.device() != where_) {
            continue;
        }
        c10::StorageImpl const* const storage = gradient.storage().unsafeGetStorageImpl();
        bool const is_first = counted.insert(storage).second;
        bytes += is_first ? bytes_in(*storage) : 0;
    }
    return bytes;
}

}  // namespace spillway
