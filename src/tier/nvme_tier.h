// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Blocks in one unlinked file on a local disk, moved past the page cache.
//
//   NvmeTier: entries, growth, what is under way (reservation_table, extent_pool, block_file)
//    +- IoEngine: uring_engine (io_uring, O_DIRECT) or pread_pool (threads)
#pragma once

#include "base/result.h"
#include "tier/tier.h"

#include <cstdint>
#include <memory>
#include <string>

namespace spillway {

struct NvmeOptions {
    std::string folder;               ///< must exist; it is never created
    std::int64_t capacity_bytes = 0;  ///< 0: nine tenths of what is free there now
    bool allow_tmpfs = false;         ///< a folder in memory is refused without this
    std::int64_t piece_bytes = 0;     ///< bytes of one I/O, a multiple of 4096; 0: probed
    int queue_depth = 0;              ///< I/Os in flight each way; 0: probed
    bool force_thread_pool = false;   ///< for tests: as if io_uring was refused
    bool force_buffered = false;      ///< for tests: as if O_DIRECT was refused
};

/// Opens an NVMe tier. The file has no name and mode 0600, grows in steps as bytes are reserved
/// (never past the capacity) and is gone with the process, however it ends. A forked child must
/// not use the tier: its calls fail and its destructor leaves everything to the parent.
///
/// Fails   Errc::bad_argument naming the folder (absent, no folder, not writable, in memory) or
///         the option; Errc::io, Errc::out_of_memory
[[nodiscard]] Result<std::unique_ptr<Tier>> open_nvme_tier(NvmeOptions const& options);

}  // namespace spillway
