// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/host_memory.h"

#include "base/units.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

namespace spillway {

namespace {

constexpr std::int64_t kPageBytes = 4096;

}  // namespace

HostMemory::HostMemory(std::span<std::byte> bytes, std::int64_t requested_bytes, Undo release)
    : bytes_(bytes), requested_bytes_(requested_bytes), release_(std::move(release)) {}

HostMemory::HostMemory(HostMemory&& other) noexcept {
    *this = std::move(other);
}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
    if (this != &other) {
        reset();
        bytes_ = std::exchange(other.bytes_, {});
        requested_bytes_ = std::exchange(other.requested_bytes_, 0);
        locked_bytes_ = std::exchange(other.locked_bytes_, 0);
        release_ = std::exchange(other.release_, nullptr);
        unlock_ = std::exchange(other.unlock_, nullptr);
    }
    return *this;
}

void HostMemory::set_locked(std::int64_t locked_bytes, Undo unlock) {
    SPILLWAY_ASSERT(unlock_ == nullptr, "memory is locked twice");
    locked_bytes_ = locked_bytes;
    unlock_ = std::move(unlock);
}

void HostMemory::reset() noexcept {
    if (Undo const unlock = std::exchange(unlock_, nullptr)) {
        unlock(bytes_);
    }
    if (Undo const release = std::exchange(release_, nullptr)) {
        release(bytes_);
    }
    bytes_ = {};
    requested_bytes_ = 0;
    locked_bytes_ = 0;
}

Result<HostMemory> map_host_memory(std::int64_t size_bytes) {
    if (size_bytes < kPageBytes) {
        return Error{
            Errc::bad_argument,
            fmt::format("{} are less than a page", format_size(size_bytes)),
            kHostMemory};
    }
    auto const whole = static_cast<std::size_t>(size_bytes / kPageBytes * kPageBytes);
    void* const memory = ::mmap(
        nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0
    );
    if (memory == MAP_FAILED) {
        return Error{
            Errc::out_of_memory,
            fmt::format("the system refuses {} of memory", format_size(size_bytes)),
            kHostMemory};
    }
    // After a fork the pages of one of the two would be others than those that a device writes to.
    ::madvise(memory, whole, MADV_DONTFORK);
    return HostMemory(
        {static_cast<std::byte*>(memory), whole},
        size_bytes,
        [](std::span<std::byte> bytes) { ::munmap(bytes.data(), bytes.size()); }
    );
}

}  // namespace spillway
