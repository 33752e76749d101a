// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The only place that calls io_uring_*: one ring, one file, a few registered buffers.
#pragma once

#include "base/result.h"
#include "tier/reservation_table.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

struct io_uring;

namespace spillway {

/// How many buffers a ring can hold registered.
inline constexpr int kRegisteredBuffers = 64;

/// A ring on one registered file.
///
/// Thread  one thread at a time, but for the buffer functions, which any may call
class Ring {
  public:
    struct Io {
        Direction way = Direction::store;
        std::byte* memory = nullptr;
        std::int64_t size_bytes = 0;
        std::int64_t file_offset = 0;
        int buffer = -1;      ///< the registered buffer that holds `memory`, or -1
        void* tag = nullptr;  ///< comes back with the completion; not null
    };
    struct Completion {
        void* tag = nullptr;
        std::int32_t result = 0;  ///< bytes, or minus an errno
    };

    /// Fails   Errc::unsupported: this system refuses io_uring
    [[nodiscard]] static Result<std::unique_ptr<Ring>> make(int fd, int entries);
    ~Ring();
    Ring(Ring const&) = delete;
    Ring& operator=(Ring const&) = delete;

    /// Adds one to the queue; false when the queue is full (submit first).
    [[nodiscard]] bool add(Io const& io);
    /// Adds a read of 8 bytes from an eventfd: how another thread wakes this one.
    [[nodiscard]] bool add_wake(int event_fd, std::uint64_t* value, void* tag);

    /// Hands the queue to the kernel; with `wait`, sleeps until something completed.
    void submit(bool wait);
    [[nodiscard]] std::optional<Completion> pop();

    /// Pins `memory` (at most 1 GiB) as buffer `index`.
    ///
    /// Fails   Errc::unsupported, Errc::out_of_memory
    [[nodiscard]] Result<void> register_buffer(int index, std::span<std::byte> memory);
    void forget_buffer(int index) noexcept;

  private:
    Ring();
    std::unique_ptr<io_uring> ring_;
    bool open_ = false;
    bool file_registered_ = false;
    bool buffers_ = false;  ///< the kernel takes registered buffers one by one (5.19)
    int fd_ = -1;
};

}  // namespace spillway
