// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/storage_wrapper.h"

#include "torch_driver/python/python_lock.h"

#include <utility>

namespace spillway {

namespace {

/// A wrapper that only torch keeps: no Python code has it, and none can get at it but through a
/// tensor of the storage.
bool has_idle_wrapper(c10::StorageImpl const& storage) {
    PyObject const* const wrapper = storage.pyobj_slot()->load_pyobj();
    return wrapper != nullptr && python_references(wrapper) == 1;
}

}  // namespace

std::size_t references_but_an_idle_wrapper(c10::StorageImpl const& storage) {
    std::size_t const all =
        c10::raw::intrusive_ptr::use_count(const_cast<c10::StorageImpl*>(&storage));
    return all > 1 && has_idle_wrapper(storage) ? all - 1 : all;
}

void WrappedStorages::let_go(c10::Storage storage) {
    c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
    if (impl.pyobj_slot()->load_pyobj() == nullptr) {
        return;  // and nobody else can make a wrapper, if this is the last reference
    }
    c10::DataPtr bytes;  // go after the lock
    // Under the lock, so that of two that let go one knows itself to be the last.
    std::lock_guard const lock(mutex_);
    if (storage.use_count() > 2) {
        storage = c10::Storage();  // others than the wrapper have it
        return;
    }
    if (has_idle_wrapper(impl)) {
        bytes = impl.set_data_ptr(c10::DataPtr(nullptr, impl.device()));
        impl.set_nbytes(0);
    }
    waiting_.push_back(std::move(storage));
}

void WrappedStorages::clear() {
    std::vector<c10::Storage> going;
    std::lock_guard const lock(mutex_);
    going.swap(waiting_);
}

}  // namespace spillway
