// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda_device/host_registration.h"

#include "base/log.h"
#include "base/units.h"
#include "cuda_device/cuda_error.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <iterator>

namespace spillway {

namespace {

void unlock(std::span<std::byte> bytes) {
    cudaError_t const status = ::cudaHostUnregister(bytes.data());
    if (status == cudaErrorCudartUnloading) {
        return;  // the process ends, and the driver has let go of everything
    }
    if (Result<void> const done = checked(status, "unlocking", "host memory"); !done.ok()) {
        log_once(done.error().message());
    }
}

}  // namespace

Result<void> lock_host_memory(HostMemory& memory) {
    std::span<std::byte> const bytes = memory.bytes();
    if (bytes.empty() || memory.locked_bytes() != 0) {
        return Error{
            Errc::bad_argument,
            bytes.empty() ? "there is nothing to lock" : "it is locked already",
            "host memory"};
    }
    // Locking makes every page resident, with one fault each: 2 MiB a fault are quicker than 4 KiB.
    // Hints; what they gain has not been measured on a GPU.
    (void)::madvise(bytes.data(), bytes.size(), MADV_HUGEPAGE);
    populate(bytes);
    Result<void> locked = checked(
        ::cudaHostRegister(
            bytes.data(), bytes.size(), cudaHostRegisterPortable | cudaHostRegisterMapped
        ),
        fmt::format("locking {}", format_size(std::ssize(bytes))),
        "host memory"
    );
    if (locked.ok()) {
        memory.set_locked(std::ssize(bytes), unlock);
    }
    return locked;
}

}  // namespace spillway
