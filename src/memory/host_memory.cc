// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/host_memory.h"

#include "base/units.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

namespace spillway {

namespace {

constexpr std::int64_t kPageBytes = 4096;

/// A thread for less is not worth it.
constexpr std::size_t kPopulatedByOne = std::size_t{64} << 20;
constexpr std::size_t kMostThreads = 8;

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

void populate(std::span<std::byte> bytes) {
    std::size_t const cores = std::max(1U, std::thread::hardware_concurrency());
    std::size_t const threads =
        std::clamp<std::size_t>(bytes.size() / kPopulatedByOne, 1, std::min(cores, kMostThreads));
    std::size_t const pages = bytes.size() / kPageBytes;
    std::vector<std::jthread> running;
    for (std::size_t i = 0; i < threads; ++i) {
        std::size_t const begin = pages * i / threads * kPageBytes;
        std::size_t const end = pages * (i + 1) / threads * kPageBytes;
        running.emplace_back([part = bytes.subspan(begin, end - begin)] {
            (void)::madvise(part.data(), part.size(), MADV_POPULATE_WRITE);
        });
    }
}

}  // namespace spillway
