// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for the .cu files of this folder where no nvcc could compile them.
#include "cuda_device/codec_kernels.h"
#include "cuda_device/smoke.h"

namespace spillway {

namespace {

Error no_kernels(char const* what) {
    return {
        Errc::unsupported,
        "this build has no kernels of its own; build it again where nvcc is",
        what};
}

}  // namespace

bool kernels_are_built() {
    return false;
}

Result<void> xor_with_pattern(std::uint8_t*, std::int64_t, std::uint64_t, cudaStream_t) {
    return no_kernels("xor_with_pattern");
}

Result<void>
encode_on_gpu(Encoding const&, DeviceBlock const&, std::uint64_t, std::uint64_t*, void*) {
    return no_kernels("encode");
}

Result<void> decode_on_gpu(Encoding const&, DeviceBlock const&, void*) {
    return no_kernels("decode");
}

}  // namespace spillway
