// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/eligibility.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace spillway {

namespace {

/// What a plain strided tensor of the device carries, autograd's keys included. No mode that the
/// session may be opened under (FakeTensorMode, vmap) makes the tensor.
c10::DispatchKeySet keys_of_plain_tensor(c10::Device device) {
    c10::InferenceMode const normal(false);
    c10::impl::ForceDispatchKeyGuard const no_modes(
        c10::default_included_set, c10::default_excluded_set
    );
    return at::empty({0}, at::TensorOptions().device(device)).key_set();
}

}  // namespace

Eligibility::Eligibility(
    DeviceBlocks const& blocks, OwnedStorages const& owned, std::int64_t min_value_bytes
)
    : blocks_(blocks),
      owned_(owned),
      min_value_bytes_(min_value_bytes),
      plain_keys_(keys_of_plain_tensor(blocks.place().device)) {}

Stay Eligibility::stay_of(at::Tensor const& tensor, c10::StorageImpl const& storage) const {
    TorchPlace const& place = blocks_.place();
    bool const is_here = storage.device() == place.device;
    if (!is_plain(tensor)) {
        return is_here ? Stay::no_plain_tensor : Stay::other_device;
    }
    if (!is_here) {
        return Stay::other_device;
    }
    auto const size_bytes = static_cast<std::int64_t>(storage.nbytes());
    if (size_bytes < min_value_bytes_) {
        return Stay::small;
    }
    if (size_bytes > place.max_value_bytes) {
        return Stay::long_for_tier;
    }
    if (!blocks_.is_block_of(storage) || !blocks_.stream_is_known(storage.data())) {
        return Stay::foreign_block;
    }
    return owned_.has(storage) ? Stay::owned : Stay::may_leave;
}

}  // namespace spillway
