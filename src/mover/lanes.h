// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The mover's queues: which move may start now, and which must fail because one that it
// waits for did (mover.h, Note [How commands wait]). No thread, no clock, no I/O.
#pragma once

#include "base/clock.h"
#include "base/ids.h"
#include "base/place.h"
#include "base/result.h"
#include "executor/command.h"
#include "memory/held_bytes.h"
#include "tier/reservation_table.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace spillway {

/// How the bytes of a move go.
enum class Route : std::uint8_t {
    in_place,  ///< the tier reads and writes the device's memory itself
    copied,    ///< one copy on a stream, between the device and the tier's memory
    staged,    ///< a copy on a stream and then the tier, or the other way, with staging between
    coded,     ///< an encode, and a copy on a stream to coded staging; or the other way
};

/// A store or load, or an encode or decode, that has been given and has not ended.
struct Move {
    CommandId fence{};
    BlockId block{};
    Pool pool = Pool::host;
    Direction way = Direction::store;  ///< of an encode: store; of a decode: load
    SideWork work = SideWork::none;    ///< none: a store or load
    Route route = Route::in_place;
    HeldBytes device{};
    std::vector<CommandId> after{};
    /// The block is a coded one; `device` is an encode's or decode's then, not a store's or load's.
    bool is_coded = false;
    /// How far the streams of `device` were when it was given.
    std::vector<StreamEventRef> ready{};
    std::span<std::byte> beside{};  ///< the other side of its copy: the tier's, or staging; of a
                                    ///< coded block's load what the tier fills
    StreamEventRef begun{};         ///< around its copy, once that is enqueued
    // Route::coded: two halves on two streams, `begun` to `half_ended`, `half_begun` to `copied`.
    StreamEventRef half_ended{};
    StreamEventRef half_begun{};
    StreamEventRef copied{};
    /// The device's error for a part of it; the move fails once what was enqueued has passed.
    std::optional<Error> refusal{};
    Interval on_tier{};  ///< as Completion's
    Interval on_stream{};
    Interval on_codec{};
    bool started = false;

    [[nodiscard]] bool is_store() const { return way == Direction::store; }
    [[nodiscard]] bool is_transfer() const { return work == SideWork::none; }
    /// "store", "load", "encode", "decode".
    [[nodiscard]] std::string_view name() const;
    /// Its bytes are where they go for all that waits for its event.
    [[nodiscard]] bool is_on_a_stream() const {
        return copied != nullptr && !refusal && (route == Route::copied || !is_store());
    }
};

/// A command that failed first, of a chain of commands that wait for each other.
struct Failure {
    CommandId first;
    Error error;
};

/// Thread  not thread-safe
class Lanes {
  public:
    static constexpr std::size_t kCount = 7;
    /// Each away pool has a lane for stores, one for loads and one for decodes: so a decode never
    /// stands behind one whose load waits for staging that it holds. Encodes have one in all.
    [[nodiscard]] static std::size_t lane_of(Move const& move);

    /// Queues a move. Its fence is new (checked). The reference is good until its `end`.
    Move& add(Move move);

    [[nodiscard]] Move* find(CommandId fence);

    /// The move at the head of `lane` if it may start or must fail now; else nullptr.
    [[nodiscard]] Move* ready(std::size_t lane);

    /// Whether the fence of `move` can no longer pass: why.
    [[nodiscard]] std::optional<Failure> failure_of(Move const& move) const;

    /// Takes a ready move from the head of its lane.
    void start(Move& move);

    /// Forgets a move that has been started. Returns it, for its hold.
    ///
    /// Order   a failure is remembered, for those that name its fence later, until `forget`
    Move end(CommandId fence, std::optional<Failure> failure);
    void forget(std::span<CommandId const> failed);

    /// Forgets every move that has not started. Returns them.
    [[nodiscard]] std::vector<Move> drop_waiting();

    [[nodiscard]] bool ended(CommandId fence) const { return !moves_.contains(fence); }
    [[nodiscard]] std::int64_t under_way() const { return std::ssize(moves_); }
    /// The move that was given first of those that have not ended; null where there is none.
    [[nodiscard]] Move const* oldest() const;

  private:
    [[nodiscard]] bool may_go(Move const& move) const;

    std::unordered_map<CommandId, Move> moves_;
    std::array<std::deque<Move*>, kCount> waiting_;
    std::unordered_map<CommandId, Failure> failed_;
};

}  // namespace spillway
