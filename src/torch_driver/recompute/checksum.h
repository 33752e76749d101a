// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a value's bytes were when it went: what is made again has to have the same checksum.
#pragma once

#include "base/mutex.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <atomic>
#include <cstdint>

namespace spillway {

/// Compared byte by byte. The host waits for the device, which makes a value of the same size.
[[nodiscard]] bool has_same_bytes(c10::Storage const& one, c10::Storage const& other);

/// Thread  any
class Checksums {
  public:
    /// From now on `of` allocates nothing on the device for storages of so many bytes: when a value
    /// goes there is no room. Allocates for it; throws as torch does.
    void prepare(c10::Device device, std::int64_t size_bytes);

    /// Gives up what `prepare` took. False: nothing.
    [[nodiscard]] bool let_go();

    /// Of the whole storage, after what the current stream has done: the host waits for that. XXH3,
    /// of the bytes on the CPU; elsewhere of sums that the device makes, over the rows and over the
    /// columns of a table of its words, so that words that changed places are seen.
    [[nodiscard]] std::uint64_t of(c10::Storage const& storage);

    /// Learns what `of` takes, where it was learned of at most half as many bytes. Throws as torch
    /// does where there is no room.
    void measure(c10::Storage const& storage);
    /// What `of` takes for so many bytes; 0 before `measure`. Takes no lock.
    [[nodiscard]] std::int64_t ns_of(std::int64_t size_bytes) const;

  private:
    /// How a storage's words are a table.
    struct Table {
        explicit Table(std::int64_t size_bytes);
        std::int64_t columns = 1;
        std::int64_t rows = 0;  ///< full ones; what is left is hashed as it is
        std::int64_t rows_at_once = 0;
        [[nodiscard]] std::int64_t most_sums() const;
    };

    [[nodiscard]] std::uint64_t of_device(c10::Storage const& storage, Table const& table)
        SPILLWAY_REQUIRES(mutex_);

    Mutex mutex_;  ///< held until the device is done with `sums_`
    at::Tensor sums_ SPILLWAY_GUARDED_BY(mutex_);
    std::atomic<std::int64_t> measured_bytes_ = 0;
    std::atomic<double> ns_per_byte_ = 0;  ///< then
};

}  // namespace spillway
