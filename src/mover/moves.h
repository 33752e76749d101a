// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the mover's lock guards: the moves that are under way, the rooms that they are for, and what
// becomes of them. It enqueues on the device's streams; what takes time on the host, a call of a
// tier or of a codec, it hands to the mover, which lets the lock go for it.
#pragma once

#include "base/ids.h"
#include "base/place.h"
#include "base/result.h"
#include "memory/device.h"
#include "mover/coded_blocks.h"
#include "mover/coding_job.h"
#include "mover/completion.h"
#include "mover/device_coding.h"
#include "mover/lanes.h"
#include "mover/mover_options.h"
#include "mover/stream_copies.h"
#include "tier/tier.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace spillway {

/// A store or load that a tier is to be given; its end is `Moves::tier_ended`.
struct TierCall {
    CommandId fence;
    Tier* tier = nullptr;
    Reservation const* room = nullptr;
    std::span<std::byte> bytes;
    bool is_store = false;
};

/// What a step of a move asks of the mover, without its lock.
using Outside = std::variant<std::monostate, TierCall, CodingJob>;

/// Thread  not thread-safe: the mover's lock guards it
class Moves {
  public:
    /// Both outlive it.
    Moves(Device& device, MoverOptions const& options);

    void add_room(BlockId block, Pool pool, Tier& tier, Reservation bytes);
    /// The block's room, which has no move under way (checked).
    [[nodiscard]] Reservation take_room(BlockId block) noexcept;
    [[nodiscard]] Pool pool_of(BlockId block) const { return rooms_.at(block).pool; }
    [[nodiscard]] bool is_coded(BlockId block) const { return coded_.contains(block); }
    void set_code(BlockId block, BlockCode const& code);

    /// Queues a move. Returns its lane.
    std::size_t give(Move move);
    /// Whether `start_next` would find one, unless there is no staging for it.
    [[nodiscard]] bool has_ready(std::size_t lane) { return lanes_.ready(lane) != nullptr; }
    /// Starts the head of a lane, or ends it where what it waits for has failed. Nothing: it cannot
    /// start now.
    [[nodiscard]] std::optional<Outside> start_next(std::size_t lane);

    /// A tier has ended what it was given.
    void tier_ended(CommandId fence, Result<void> outcome);
    /// A job has been run.
    void coded(CodingJob const& job, CodingResult const& result);
    /// What tiers have loaded goes to the streams; stalls that ended are booked.
    void begin_advance();
    /// Takes the next move of a queue of StreamCopies further whose work there has passed. Nothing:
    /// none has.
    [[nodiscard]] std::optional<Outside> advance(std::size_t queue);

    /// Whether a thread need not wait for it: it has ended, or streams can.
    [[nodiscard]] bool is_settled(CommandId fence);
    /// For one that has not ended, but is settled: orders streams after it.
    void order_streams_after(CommandId fence, std::vector<std::shared_ptr<void const>>& released);

    /// Forgets every move that has not started. Returns them, for their holds.
    [[nodiscard]] std::vector<Move> drop_waiting() { return lanes_.drop_waiting(); }
    /// When nothing is under way any more.
    void drop_rooms() { rooms_.clear(); }

    struct Ended {
        Completion completion;
        std::shared_ptr<void const> hold;
    };
    [[nodiscard]] std::vector<Ended> take_ended() { return std::exchange(ended_, {}); }
    [[nodiscard]] std::int64_t ended_count() const { return std::ssize(ended_); }

    /// What happened since the last call that a thread of the mover's may be waiting for.
    struct News {
        bool ended = false;    ///< or came so far that streams can wait for it
        bool started = false;  ///< something whose end only StreamCopies notices
    };
    [[nodiscard]] News take_news() { return std::exchange(news_, {}); }

    [[nodiscard]] bool has_ended(CommandId fence) const { return lanes_.ended(fence); }
    [[nodiscard]] std::int64_t under_way() const { return lanes_.under_way(); }
    /// For people: the move that was given first of those that have not ended; empty: there is
    /// none.
    [[nodiscard]] std::string describe_oldest() const;
    [[nodiscard]] CodedBlocks const& coded_blocks() const { return coded_; }
    [[nodiscard]] StreamCopies const& copies() const { return copies_; }
    [[nodiscard]] std::vector<StreamStall> take_stalls() { return copies_.take_stalls(); }
    void keep_stalls(bool keep) { copies_.keep_stalls(keep); }
    /// The longest coded block; 0: nothing can be encoded. Always the same.
    [[nodiscard]] std::int64_t most_coded_bytes() const;

  private:
    struct Room {
        Pool pool = Pool::host;
        Tier* tier = nullptr;
        Reservation bytes;
        std::int64_t moves = 0;           ///< given and not ended
        std::vector<CommandId> failed{};  ///< named by nobody once the room is released
    };

    [[nodiscard]] Route route_of(Move const& move, Room const& room) const;
    [[nodiscard]] bool take_staging(Move& move);
    [[nodiscard]] Outside start(Move& move);
    [[nodiscard]] TierCall call_tier(Move& move, std::span<std::byte> bytes);
    void enqueue_copy(Move& move);
    void is_on_its_way(Move& move);
    void enqueue_decode(Move& move);
    void fail(CommandId fence, Error const& error);
    void end(CommandId fence, Result<void> outcome, std::optional<Failure> failure);

    Device& device_;
    bool const measure_;
    Lanes lanes_;
    std::unordered_map<BlockId, Room> rooms_;
    DeviceCoding device_coding_;
    CodedBlocks coded_;
    StreamCopies copies_;
    std::vector<CommandId> loaded_;  ///< staging is filled, the copy in is due
    std::vector<Ended> ended_;
    News news_;
};

}  // namespace spillway
