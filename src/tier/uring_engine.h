// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The engine on io_uring: one thread that cuts blocks into pieces, keeps a number of them in
// flight, and sums them while the disk works.
#pragma once

#include "base/mutex.h"
#include "tier/block_file.h"
#include "tier/transfer.h"
#include "tier/uring.h"

#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace spillway {

class UringEngine final : public IoEngine {
  public:
    /// Fails   Errc::unsupported (io_uring is refused), Errc::out_of_memory, Errc::io
    [[nodiscard]] static Result<std::unique_ptr<IoEngine>> make(EngineOptions const& options);
    ~UringEngine() override;

    void start(std::unique_ptr<FileTransfer> transfer) override;
    [[nodiscard]] std::int64_t staging_bytes() const override { return staging_.size_bytes(); }
    [[nodiscard]] Result<void> register_memory(std::span<std::byte> memory) override;
    void forget_memory(std::span<std::byte> memory) noexcept override;

  private:
    /// One I/O of a transfer. It is free again when it was both moved and summed.
    struct Piece {
        Piece* next = nullptr;
        FileTransfer* transfer = nullptr;
        std::int64_t first = 0;    ///< offset in the block
        std::int64_t size = 0;     ///< payload
        std::int64_t io_size = 0;  ///< payload rounded up to what the disk takes
        std::int64_t moved = 0;    ///< of io_size
        int tries = 0;             ///< that moved nothing
        int staging = -1;          ///< the staging buffer that it moves through, or -1
        bool io_ended = false;
        bool summed = false;
    };
    struct Queue {
        Chain<FileTransfer> waiting;
        int in_flight = 0;
    };

    explicit UringEngine(EngineOptions const& options);
    [[nodiscard]] Result<void> prepare();

    // All of these run on the thread.
    void run();
    void take_inbox();
    void issue_all();
    [[nodiscard]] bool issue_next(Direction way);
    [[nodiscard]] bool set_up(Piece& piece, FileTransfer const& transfer);
    void add_to_ring(Piece& piece);
    [[nodiscard]] bool reap();
    void on_completion(Piece& piece, std::int32_t result);
    [[nodiscard]] bool retry(Piece& piece, std::int32_t result);
    void end_io(Piece& piece);
    [[nodiscard]] bool sum_one();
    void sum(Piece const& piece);
    void end_piece(Piece& piece);
    [[nodiscard]] bool can_stop() const;

    [[nodiscard]] int buffer_holding(std::byte const* memory, std::int64_t size_bytes) const
        SPILLWAY_REQUIRES(guard_);
    [[nodiscard]] std::byte* staging_at(int index) const;
    Queue& queue_of(Direction way) { return queues_[static_cast<std::size_t>(way)]; }

    EngineOptions const options_;
    Fd wake_fd_;
    std::uint64_t wake_value_ = 0;
    bool wake_armed_ = false;
    bool stop_seen_ = false;
    std::unique_ptr<Ring> ring_;

    AlignedBuffer staging_;
    std::vector<int> free_staging_;
    int staging_buffer_ = -1;

    std::vector<Piece> pieces_;
    Chain<Piece> free_pieces_;
    Chain<Piece> to_sum_;
    Queue queues_[2];

    Mutex guard_;
    Chain<FileTransfer> inbox_ SPILLWAY_GUARDED_BY(guard_);
    bool stopping_ SPILLWAY_GUARDED_BY(guard_) = false;
    /// By buffer index; empty where free.
    std::vector<std::span<std::byte>> registered_ SPILLWAY_GUARDED_BY(guard_);

    std::thread thread_;
};

}  // namespace spillway
