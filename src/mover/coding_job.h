// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The host's part of one encode or decode: bytes in, bytes out, no state.
#pragma once

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "mover/coding.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace spillway {

enum class CodingTask : std::uint8_t {
    encode,  ///< `from` raw bytes, `to` room for the block
    decode,  ///< `from` the block, `to` raw bytes
    seal,    ///< of a block that a device encoded: `to` the block, `from` raw samples of it
    check,   ///< of a block that a device will decode: `from` the block
};

/// Its spans stay alive and unchanged until it has been run.
struct CodingJob {
    CommandId fence;  ///< of the encode or decode
    CodingTask task = CodingTask::encode;
    BlockCode code{};
    std::span<std::byte const> from{};
    std::span<std::byte> to{};

    [[nodiscard]] bool is_encode() const {
        return task == CodingTask::encode || task == CodingTask::seal;
    }
};

struct CodingResult {
    Result<void> outcome;
    std::int64_t size_bytes = 0;  ///< of the block, after an encode or seal
    SquareSums sums{};            ///< of its samples
    Interval time{};  ///< that the codec took, by the steady clock; not for seal and check
};

/// Thread  re-entrant
/// Fails   encode, seal: Errc::unsupported, what the codec cannot hold. decode, check:
/// Errc::corrupt
[[nodiscard]] CodingResult run(CodingJob const& job);

}  // namespace spillway
