// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Copies on a device's streams, ordered by events, where the host cannot reach the device's memory:
// what is on a stream and what has passed, the staging memory between, and how long streams of
// compute stood still. Every wait here is a rule of its own (base/ordering_rules.h).
#pragma once

#include "memory/device.h"
#include "memory/extent_pool.h"
#include "mover/completion.h"
#include "mover/lanes.h"
#include "tier/tier.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace spillway {

/// Thread  not thread-safe: the mover's lock guards it
class StreamCopies {
  public:
    /// Moves that end on one of these streams pass in order.
    static constexpr std::size_t kQueues = 3;

    /// `lanes`: where the moves are. `staging`: memory that copies go through where a tier has none
    /// of its own. `measure`: records when moves were on a stream, and stalls. All outlive it.
    StreamCopies(Device& device, Lanes& lanes, std::span<std::byte> staging, bool measure);

    /// How far the streams of a move's bytes are now: what its copy has to wait for. The move's
    /// route is known, and not `in_place`.
    void note_positions(Move& move);

    /// Staging for a move whose route is `staged`. False: there is none now.
    [[nodiscard]] bool take_staging(Move& move, std::int64_t size_bytes);
    /// Nothing where it has none.
    void give_staging_back(Move& move);

    /// Enqueues the copy between a move's bytes and `move.beside`, behind the copies of those that
    /// it names.
    ///
    /// Fails   Errc::io, the device's words; nothing is enqueued then
    [[nodiscard]] Result<void> enqueue(Move& move);
    /// The same for what a device encodes or decodes, which is enqueued already.
    void add_coded(Move& move);

    /// The head of a queue, if its work on the stream has passed, taken from there; else null.
    [[nodiscard]] Move* take_passed(std::size_t queue);
    /// Books the copy of a move that has passed.
    void count(Move& move);
    /// The same of an encode or decode, with `coded_bytes` on the way. Returns the device's time
    /// for the encode or decode itself.
    std::int64_t count_coded(Move& move, std::int64_t coded_bytes);

    /// Whether `wait` can be a stream's.
    [[nodiscard]] static bool streams_can_wait_for(Move const& move);
    /// What its streams do from now on comes after the move. Hands its hold over where the stream's
    /// order is enough.
    void order_streams_after(Move& move, std::vector<std::shared_ptr<void const>>& released);
    /// Books the stalls that have ended.
    void pass_stalls();
    /// Those that ended since the last call, where they are measured or kept.
    [[nodiscard]] std::vector<StreamStall> take_stalls();
    /// Whether stalls are kept for that although nothing is measured.
    void keep_stalls(bool keep) { keeps_stalls_ = keep; }

    /// Copies that are on streams; of these, or of what came of them, those that no thread of the
    /// program's may look for.
    [[nodiscard]] std::int64_t on_streams() const { return on_streams_; }
    [[nodiscard]] std::int64_t staged() const { return staged_; }
    [[nodiscard]] StreamCounters const& counters() const { return counters_; }
    /// Of copies between the device and a tier's own memory.
    [[nodiscard]] TierCounters const& copied(Pool pool) const {
        return copied_[static_cast<std::size_t>(pool)];
    }

  private:
    /// A stream of compute that was made to wait.
    struct Stall {
        CommandId command;
        Direction way = Direction::store;
        StreamEventRef before;
        StreamEventRef after;
    };

    [[nodiscard]] bool has_passed(Move const& move);
    void order_after(StreamId stream, Move const& move);
    [[nodiscard]] std::int64_t time_of(StreamEventRef const& event);

    enum : std::size_t { kCopyOut, kCopyIn, kDecode };
    Device& device_;
    Lanes& lanes_;
    std::span<std::byte> const memory_;
    bool const measure_;
    ExtentPool staging_;
    std::array<std::deque<CommandId>, kQueues> queues_;
    std::int64_t on_streams_ = 0;
    std::int64_t staged_ = 0;
    std::deque<Stall> stalls_;
    std::vector<StreamStall> ended_stalls_;  ///< not taken
    bool keeps_stalls_ = false;
    StreamCounters counters_;
    std::array<TierCounters, kPools> copied_{};
    StreamEventRef base_;  ///< passed at `base_ns_` of the steady clock
    std::int64_t base_ns_ = 0;
};

}  // namespace spillway
