// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The coded blocks of a mover: how each is encoded, how long it became, where its bytes are between
// codec and tier, and what coding came to.
#pragma once

#include "base/ids.h"
#include "base/result.h"
#include "mover/coding.h"
#include "mover/coding_job.h"
#include "mover/lanes.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace spillway {

/// Thread  not thread-safe: the mover's lock guards it
class CodedBlocks {
  public:
    /// `memory`: for coded bytes, half for each way (CodedStaging).
    explicit CodedBlocks(HostMemory const& memory) : staging_(memory) {}

    /// From here on `block` is a coded one; once (checked). `room_bytes`: what the tier has for it.
    void add(BlockId block, BlockCode const& code, std::int64_t room_bytes);
    [[nodiscard]] bool contains(BlockId block) const { return blocks_.contains(block); }
    [[nodiscard]] BlockCode const& code_of(BlockId block) const { return blocks_.at(block).code; }
    /// Gives back what neither a store nor a decode came for. Nothing where it is no coded block.
    void remove(BlockId block) noexcept;

    /// Room for what an encode makes, or a coded block's load brings. True where `move` needs none;
    /// false: there is none now.
    [[nodiscard]] bool take_staging(Move& move);
    /// Of a move that has ended: what nobody after it uses.
    void give_staging_back(Move const& move, bool ended_well);

    /// The room that an encode or store reads or writes; that the load before a decode filled.
    [[nodiscard]] std::span<std::byte> staging_of(Move const& move) const;
    /// What a tier stores or fills.
    [[nodiscard]] std::span<std::byte> bytes_for_tier(Move const& move) const;

    /// The host's part of an encode or decode.
    [[nodiscard]] CodingJob job_of(Move const& move) const;
    /// Books what came of it. `device_ns`: that a device took for what was sealed.
    ///
    /// Fails   as the job did
    [[nodiscard]] Result<void> finish(
        CodingJob const& job, Move const& move, CodingResult const& result, std::int64_t device_ns
    );
    /// Books a decode by the device.
    void decoded_by_device(BlockId block, std::int64_t device_ns);

    [[nodiscard]] std::vector<CodingCounters> const& counters() const { return tally_.all(); }
    /// The longest block that ever fits.
    [[nodiscard]] std::int64_t most_bytes() const { return staging_.most_bytes(); }
    /// Of staging, taken now.
    [[nodiscard]] std::int64_t used_bytes() const { return staging_.used_bytes(); }

  private:
    struct Coded {
        BlockCode code;
        std::int64_t room_bytes = 0;
        std::int64_t size_bytes = 0;       ///< once it has been encoded
        std::span<std::byte> beside = {};  ///< from its encode to the end of its store
    };
    /// What a load brought, until its decode has ended.
    struct Brought {
        BlockId block;
        std::span<std::byte> beside;
    };

    [[nodiscard]] std::span<std::byte> brought_for(Move const& move) const;

    CodedStaging staging_;
    CodingTally tally_;
    std::unordered_map<BlockId, Coded> blocks_;
    std::unordered_map<CommandId, Brought> brought_;  ///< by load
};

}  // namespace spillway
