// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How many pieces of which size this disk wants in flight: a short measurement in a tier's own
// file, when the first tier on that disk is opened.
#pragma once

#include "tier/block_file.h"
#include "tier/uring.h"

#include <cstdint>

namespace spillway {

/// The shape of I/O that a tier uses.
struct IoShape {
    std::int64_t piece_bytes = std::int64_t{1} << 20;
    int queue_depth = 16;

    bool operator==(IoShape const&) const = default;
};

/// What one shape gave here.
struct IoRates {
    double write_bytes_per_s = 0;
    double read_bytes_per_s = 0;
};

/// Moves about `budget_ns` worth of bytes each way through [0, file.size_bytes()), whose content
/// is lost, all from and to one block of memory.
///
/// Fails   Errc::io, Errc::out_of_memory
[[nodiscard]] Result<IoRates> measure_io(
    BlockFile const& file, IoShape shape, std::int64_t budget_ns
);

/// The best of a few shapes in less than half a second; the default where nothing is better by
/// more than the noise of so short a measurement, or where measuring fails.
[[nodiscard]] IoShape probe_io(BlockFile const& file);

/// As probe_io, once for each file system and process, so that later sessions open at once: other
/// files there get the first one's answer, and are left alone. Grows the file that is measured.
///
/// Thread  any; one measures at a time
[[nodiscard]] IoShape probe_io_once(BlockFile& file);

}  // namespace spillway
