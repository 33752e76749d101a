// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The inside of the mover: its lock, its own threads, the order in which tiers are called, the
// copies that are on the device's streams, and what is encoded and decoded.
#pragma once

#include "base/assert.h"
#include "memory/extent_pool.h"
#include "mover/lanes.h"
#include "mover/mover.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

/// Thread  every public function may be called from any thread
class Mover::Impl {
  public:
    Impl(
        std::shared_ptr<Device> device,
        std::unique_ptr<Tier> host,
        std::unique_ptr<Tier> nvme,
        MoverOptions options
    );
    ~Impl();

    Result<void> reserve(Pool pool, BlockId block, std::int64_t size_bytes);
    void release(BlockId block) noexcept;
    void give(Move move);
    std::int64_t wait(std::span<CommandId const> fences);
    std::int64_t wait_for_any();
    void end_limits() noexcept {
        for (Tier* const tier : {host_.get(), nvme_.get()}) {
            if (tier != nullptr) {
                tier->end_limits();
            }
        }
    }
    std::vector<Completion> take_completions();
    std::vector<StreamStall> take_stream_stalls();
    bool has_completions();

    bool ended(CommandId fence) const {
        std::lock_guard const lock(guard_);
        return lanes_.ended(fence);
    }
    std::int64_t under_way() const {
        std::lock_guard const lock(guard_);
        return lanes_.under_way();
    }
    Device& device() { return *device_; }
    bool forked() const { return ::getpid() != owner_; }
    Tier* tier(Pool pool) const;
    TierCounters counters(Pool pool) const;
    HostMemory const& staging() const { return options_.staging; }
    HostMemory const& coded_staging() const { return options_.coded; }
    std::int64_t most_coded_bytes() const;
    bool codes(Codec const& codec) const {
        return device_->is_host() || (options_.coder != nullptr && options_.coder->codes(codec));
    }
    std::vector<CodingCounters> coding_counters() const {
        std::lock_guard const lock(guard_);
        return tally_.all();
    }
    Pool pool_of(BlockId block) const {
        std::lock_guard const lock(guard_);
        return rooms_.at(block).pool;
    }
    bool is_coded(BlockId block) const {
        std::lock_guard const lock(guard_);
        return rooms_.at(block).coded.has_value();
    }
    void set_code(BlockId block, BlockCode const& code);
    StreamCounters stream_counters() const {
        std::lock_guard const lock(guard_);
        return streams_;
    }

  private:
    /// Of a room for a coded block.
    struct Coded {
        BlockCode code;
        std::int64_t size_bytes = 0;       ///< once it has been encoded
        std::span<std::byte> beside = {};  ///< from its encode to the end of its store
    };
    /// What a load brought, until its decode has ended.
    struct Brought {
        BlockId block;
        std::span<std::byte> beside;
    };
    struct Room {
        Pool pool = Pool::host;
        Reservation bytes;
        std::int64_t moves = 0;           ///< given and not ended
        std::vector<CommandId> failed{};  ///< named by nobody once the room is released
        std::optional<Coded> coded = std::nullopt;
    };
    struct Ended {
        Completion completion;
        std::shared_ptr<void const> hold;
    };
    /// A stream of compute that was made to wait.
    struct Stall {
        Direction way = Direction::store;
        StreamEventRef before;
        StreamEventRef after;
    };
    using Lock = std::unique_lock<std::mutex>;

    void run_starter();
    void start_all(Lock& lock);
    void start_ready(std::size_t lane, Lock& lock);
    void start(Move& move, Lock& lock);
    void call_tier(CommandId fence, std::span<std::byte> bytes, Lock& lock);
    void on_done(CommandId fence, Result<void> outcome);
    void fail(CommandId fence, Error const& error);
    void end(CommandId fence, Result<void> outcome, std::optional<Failure> failure);
    void wake_starter();
    template <typename Condition>
    std::int64_t wait_until(Lock& lock, char const* who, Condition const& condition);
    void say_who_waits(char const* who, std::chrono::nanoseconds waited) const;

    // The part of codecs: coded_moves.cc.
    void start_codec_threads();
    void stop_codec_threads();
    void run_codec();
    [[nodiscard]] bool take_coded_staging(Move& move);
    void give_coded_staging_back(Move const& move, bool ended_well);
    void give_coded_staging_back(BlockId block, Room& room) noexcept;
    [[nodiscard]] std::span<std::byte> bytes_for_tier(Move const& move) const;
    void start_coding(Move& move, Lock& lock);
    void do_coding(CommandId fence, Lock& lock);
    [[nodiscard]] Result<void> code(Move& move, Lock& lock);
    void count_encoded(BlockCode const& code, std::int64_t size_bytes, SquareSums const& sums);
    [[nodiscard]] Error undecodable(Move const& move, Error const& error) const;
    [[nodiscard]] std::span<std::byte> brought_for(Move const& move) const;
    [[nodiscard]] Result<void> encode_now(Move& move, Lock& lock);
    [[nodiscard]] Result<void> decode_now(Move& move, Lock& lock);

    // The part of devices that code themselves: stream_coding.cc.
    [[nodiscard]] void* memory_for_coding();
    void enqueue_encode(Move& move);
    [[nodiscard]] Result<void> enqueue_coded_copy_out(Move& move, Encoding const& encoding);
    [[nodiscard]] Result<void> seal_now(Move& move, Lock& lock);
    [[nodiscard]] Result<void> check_now(Move& move, Lock& lock);
    void enqueue_decode(Move& move);
    void is_on_its_way(Move& move, StreamId stream, Result<void> const& enqueued);
    void count_coded(Move& move);

    // The part of streams: stream_moves.cc.
    [[nodiscard]] Route route_of(Move const& move, Room const& room);
    void note_positions(Move& move);
    [[nodiscard]] bool take_staging(Move& move);
    void give_staging_back(Move& move);
    void enqueue_copy(Move& move);
    void advance(Lock& lock);
    void pass_copies(std::deque<CommandId>& copies, Lock& lock);
    void pass_copy(Move& move, Lock& lock);
    void count(Move& move);
    void pass_stalls();
    [[nodiscard]] std::int64_t time_of(StreamEventRef const& event);
    [[nodiscard]] static bool streams_can_wait_for(Move const& move);
    void order_streams_after(Move& move, std::vector<std::shared_ptr<void const>>& released);
    void order_after(StreamId stream, Move const& move);

    pid_t const owner_ = ::getpid();
    MoverOptions const options_;
    std::shared_ptr<Device> const device_;  ///< the second owner is the driver
    std::unique_ptr<Tier> host_;
    std::unique_ptr<Tier> nvme_;

    mutable std::mutex guard_;          ///< of what follows; never held across a call of a tier
    std::condition_variable ended_cv_;  ///< a move ended
    std::condition_variable starter_cv_;
    Lanes lanes_;
    std::array<bool, Lanes::kCount> starting_{};  ///< a thread is at work on that lane
    std::unordered_map<BlockId, Room> rooms_;
    std::vector<Ended> ended_;
    std::atomic<std::int64_t> ended_count_{0};

    CodedStaging coded_staging_;
    CodingTally tally_;
    std::unordered_map<CommandId, Brought> brought_;  ///< by load
    std::array<std::deque<CommandId>, 2> to_code_;    ///< started: encodes, decodes
    std::condition_variable codec_cv_;

    ExtentPool staging_;
    enum : std::size_t { kCopyOut, kCopyIn, kDecode };
    std::array<std::deque<CommandId>, 3> copies_;  ///< that end on these streams, in order
    std::vector<CommandId> loaded_;                ///< staging is filled, the copy in is due
    std::deque<Stall> stalls_;
    std::atomic<std::int64_t> copies_on_streams_{0};
    StreamCounters streams_;
    std::vector<StreamStall> stream_stalls_;  ///< measured, not taken
    StreamEventRef base_;                     ///< passed at `base_ns_` of the steady clock
    std::int64_t base_ns_ = 0;
    std::array<TierCounters, kPools> copied_{};  ///< of moves that no tier saw
    std::int64_t staged_copies_ = 0;             ///< what the mover's own thread has to look after

    bool starter_needed_ = false;
    bool stopping_ = false;
    bool codecs_stopping_ = false;
    std::vector<std::thread> codecs_;
    std::thread starter_;  ///< last, as those: they use all of the above
};

}  // namespace spillway
