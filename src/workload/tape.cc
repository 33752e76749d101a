// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "workload/tape.h"

#include <utility>

namespace spillway {

std::int64_t rounded_bytes(std::int64_t size_bytes) {
    constexpr std::int64_t kBlockBytes = 512;
    return (size_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

TapeTensor Tape::add_tensor(TapeTensorInfo const& tensor) {
    tensors_.push_back(tensor);
    return {tensors_.size() - 1};
}

TapeTensor Tape::input(std::int64_t elements, ElementType dtype) {
    return add_tensor({.size_bytes = rounded_bytes(elements * dtype.size_bytes), .dtype = dtype});
}

TapeTensor Tape::add(TapeOperator what) {
    std::vector<TapeTensor> made;
    for (TapeOutput const& output : what.outputs) {
        made.push_back(add_tensor(
            {.size_bytes = rounded_bytes(output.elements * output.dtype.size_bytes),
             .dtype = output.dtype,
             .maker = operators_.size(),
             .output = static_cast<std::int32_t>(made.size()),
             .is_random = output.is_random}
        ));
    }
    parameters_ += what.parameters;
    operators_.push_back(std::move(what));
    outputs_.push_back(made);
    return made.front();
}

}  // namespace spillway
