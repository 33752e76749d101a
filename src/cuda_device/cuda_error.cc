// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda_device/cuda_error.h"

#include <fmt/format.h>

#include <string>

namespace spillway {

namespace {

struct Meaning {
    Errc code = Errc::io;
    std::string_view advice;  ///< begins with "; "
};

Meaning meaning_of(cudaError_t status) {
    switch (status) {
        case cudaErrorNoDevice:
        case cudaErrorInsufficientDriver:
        case cudaErrorStubLibrary:
        case cudaErrorSystemDriverMismatch:
            return {Errc::unsupported, "; it needs an NVIDIA GPU and its driver"};
        case cudaErrorMemoryAllocation:
            return {Errc::out_of_memory, "; ask for less"};
        case cudaErrorInvalidValue:
        case cudaErrorInvalidDevice:
        case cudaErrorHostMemoryAlreadyRegistered:
        case cudaErrorHostMemoryNotRegistered:
            return {Errc::bad_argument, ""};
        case cudaErrorNotSupported:
        case cudaErrorNoKernelImageForDevice:
            return {Errc::unsupported, ""};
        default:
            return {};
    }
}

}  // namespace

Result<void> checked(cudaError_t status, std::string_view what, std::string_view where) {
    if (status == cudaSuccess) {
        return {};
    }
    static_cast<void>(::cudaGetLastError());
    Meaning const meaning = meaning_of(status);
    return Error{
        meaning.code,
        fmt::format(
            "{}: {} ({}){}",
            what,
            ::cudaGetErrorString(status),
            ::cudaGetErrorName(status),
            meaning.advice
        ),
        std::string(where)};
}

}  // namespace spillway
