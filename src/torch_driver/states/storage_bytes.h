// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a storage takes. That of a Python wrapper class has a size and no data: the bytes are in
// tensors inside the wrapper, which only its class knows. So has that of a state that is away.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>

namespace spillway {

/// Whether `storage` says a size and has no data. One whose data are away (resized to 0) has none.
[[nodiscard]] inline bool is_only_a_size(c10::StorageImpl const& storage) {
    // Whoever reads the data of a state that is away is refused; here they are not read.
    auto& unchecked = const_cast<c10::StorageImpl&>(storage);
    return storage.nbytes() > 0 && unchecked._mutable_data_ptr_no_checks().get() == nullptr;
}

/// Bytes that `storage` has now.
[[nodiscard]] inline std::int64_t bytes_in(c10::StorageImpl const& storage) {
    return is_only_a_size(storage) ? 0 : static_cast<std::int64_t>(storage.nbytes());
}

}  // namespace spillway
