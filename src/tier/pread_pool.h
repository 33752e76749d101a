// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The engine where io_uring or O_DIRECT is refused: a few threads with pread and pwrite. Without
// O_DIRECT each piece is written back and dropped from the page cache, so that the cache does not
// become a second copy of what was moved out of memory.
#pragma once

#include "base/mutex.h"
#include "tier/block_file.h"
#include "tier/transfer.h"

#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace spillway {

class PreadPool final : public IoEngine {
  public:
    /// Fails   Errc::out_of_memory
    [[nodiscard]] static Result<std::unique_ptr<IoEngine>> make(EngineOptions const& options);
    ~PreadPool() override;

    void start(std::unique_ptr<FileTransfer> transfer) override;
    [[nodiscard]] std::int64_t staging_bytes() const override;
    [[nodiscard]] Result<void> register_memory(std::span<std::byte> memory) override;
    void forget_memory(std::span<std::byte>) noexcept override {}

  private:
    struct Piece {
        FileTransfer* transfer = nullptr;
        std::int64_t first = 0;
        std::int64_t size = 0;
    };
    struct Worker {
        AlignedBuffer staging;  ///< empty without O_DIRECT
        std::thread thread;
    };

    explicit PreadPool(EngineOptions const& options) : options_(options) {}
    void run(Worker const& worker);
    [[nodiscard]] bool take_piece(Piece& piece) SPILLWAY_REQUIRES(guard_);
    /// Lets the lock go for the `finished` of its transfer.
    void end_piece(Piece const& piece, Result<void> const& result) SPILLWAY_REQUIRES(guard_);

    [[nodiscard]] Result<void> move(Piece const& piece, AlignedBuffer const& staging) const;
    [[nodiscard]] Result<void> store(Piece const& piece, AlignedBuffer const& staging) const;
    [[nodiscard]] Result<void> load(Piece const& piece, AlignedBuffer const& staging) const;
    [[nodiscard]] Result<void> move_all(
        Direction way, std::byte* memory, std::int64_t size_bytes, std::int64_t file_offset
    ) const;
    [[nodiscard]] bool in_place(Piece const& piece) const;

    EngineOptions const options_;
    std::vector<Worker> workers_;

    Mutex guard_;  ///< also of the engine's part of every transfer
    ConditionVariable changed_;
    Chain<FileTransfer> waiting_[2] SPILLWAY_GUARDED_BY(guard_);
    Direction turn_ SPILLWAY_GUARDED_BY(guard_) = Direction::store;
    bool stopping_ SPILLWAY_GUARDED_BY(guard_) = false;
};

}  // namespace spillway
