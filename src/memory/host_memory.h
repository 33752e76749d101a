// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Host memory as one contiguous range of exact size, which a device's copy engine can be let read
// and write, and how much of it this machine, or the cgroup of this process, can give.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace spillway {

/// Where an error of this folder happened.
inline constexpr char const* kHostMemory = "host memory";

/// Host memory of exact size that a device may copy to and from. Move-only.
///
/// Thread  used by one thread at a time; the bytes are the owner's to guard
class HostMemory {
  public:
    /// Undoes a mapping or a lock of these bytes. Must not throw.
    using Undo = std::function<void(std::span<std::byte>)>;

    HostMemory() = default;
    /// `bytes` are given back through `release` at the end; `requested_bytes` is what was asked for
    /// before it was cut to whole pages.
    HostMemory(std::span<std::byte> bytes, std::int64_t requested_bytes, Undo release);
    HostMemory(HostMemory&& other) noexcept;
    HostMemory& operator=(HostMemory&& other) noexcept;
    ~HostMemory() { reset(); }

    /// Records that `locked_bytes` of these bytes are now locked (pinned). `unlock` runs before the
    /// memory is given back.
    ///
    /// Order   once; the caller has locked them
    void set_locked(std::int64_t locked_bytes, Undo unlock);

    [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
    [[nodiscard]] std::int64_t requested_bytes() const { return requested_bytes_; }
    /// What is locked in memory; 0: pageable.
    [[nodiscard]] std::int64_t locked_bytes() const { return locked_bytes_; }

    /// Unlocks and gives back now.
    void reset() noexcept;

  private:
    std::span<std::byte> bytes_;
    std::int64_t requested_bytes_ = 0;
    std::int64_t locked_bytes_ = 0;
    Undo release_;
    Undo unlock_;
};

/// Maps `size_bytes`, cut to whole pages, for this process alone: not locked, resident page by page
/// as they are first written, unseen by a forked child.
///
/// Fails   Errc::bad_argument (less than a page), Errc::out_of_memory
[[nodiscard]] Result<HostMemory> map_host_memory(std::int64_t size_bytes);

/// Makes the pages of `bytes` resident now, by several threads: locking them afterwards takes one
/// thread, which would otherwise take each page from the system first. A hint: pages that the
/// system does not give stay as they are.
void populate(std::span<std::byte> bytes);

/// What bounds the host memory of this process.
struct HostLimits {
    static constexpr std::int64_t kUnlimited = -1;

    std::int64_t machine_bytes = kUnlimited;    ///< MemTotal
    std::int64_t available_bytes = kUnlimited;  ///< MemAvailable: free, or taken back at no loss
    /// The cgroup, among this process's own and those above it, with the least room left.
    std::int64_t cgroup_limit_bytes = kUnlimited;
    std::int64_t cgroup_used_bytes = 0;  ///< without the file cache, which goes when asked for
    std::string cgroup;                  ///< the file that holds the limit
    /// RLIMIT_MEMLOCK. It binds mlock and io_uring's buffers; a CUDA driver pins past it.
    std::int64_t memlock_bytes = kUnlimited;

    /// The most that this process may ever have; kUnlimited where no limit is known.
    [[nodiscard]] std::int64_t most_bytes() const;
    /// What is left of it now.
    [[nodiscard]] std::int64_t left_bytes() const;

    bool operator==(HostLimits const&) const = default;
};

/// Reads /proc and /sys/fs/cgroup (v2, v1 and both at once). What is not there is no limit. `root`
/// is for tests that make such a tree up.
[[nodiscard]] HostLimits read_host_limits(std::string const& root = "/");

/// Whether `asked_bytes` of host memory can be had now. The error names them, the limit that they
/// pass, and whose it is.
///
/// Fails   Errc::bad_argument (negative, or more than the machine or cgroup can ever have),
///         Errc::out_of_memory (more than is left there now)
[[nodiscard]] Result<void> check_host_budget(std::int64_t asked_bytes, HostLimits const& limits);

/// Advice about RLIMIT_MEMLOCK where `asked_bytes` could not be locked; empty where it allows them.
[[nodiscard]] std::string memlock_advice(std::int64_t asked_bytes, HostLimits const& limits);

}  // namespace spillway
