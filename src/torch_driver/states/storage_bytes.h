// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a storage takes. That of a Python wrapper class has a size and no data: the bytes are in
// tensors inside the wrapper, which only its class knows.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>

namespace spillway {

/// Whether `storage` says a size and has no data. One whose data are away (resized to 0) has none.
[[nodiscard]] inline bool is_only_a_size(c10::StorageImpl const& storage) {
    return storage.nbytes() > 0 && storage.data() == nullptr;
}

/// Bytes that `storage` has now.
[[nodiscard]] inline std::int64_t bytes_in(c10::StorageImpl const& storage) {
    return is_only_a_size(storage) ? 0 : static_cast<std::int64_t>(storage.nbytes());
}

}  // namespace spillway
