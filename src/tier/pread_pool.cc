// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/pread_pool.h"

#include "base/units.h"
#include "tier/checksum.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace spillway {

namespace {

constexpr std::size_t kThreads = 4;

}  // namespace

Result<std::unique_ptr<IoEngine>> PreadPool::make(EngineOptions const& options) {
    std::unique_ptr<PreadPool> made(new PreadPool(options));
    made->workers_.resize(kThreads);
    for (Worker& worker : made->workers_) {
        if (options.direct) {
            Result<AlignedBuffer> staging = AlignedBuffer::make(options.piece_bytes);
            if (!staging.ok()) {
                return staging.error();
            }
            worker.staging = std::move(staging).value();
        }
    }
    for (Worker& worker : made->workers_) {
        worker.thread = std::thread([pool = made.get(), &worker] { pool->run(worker); });
    }
    return std::unique_ptr<IoEngine>(std::move(made));
}

PreadPool::~PreadPool() {
    {
        MutexLock const lock(guard_);
        stopping_ = true;
    }
    changed_.notify_all();
    for (Worker& worker : workers_) {
        if (worker.thread.joinable()) {
            worker.thread.join();
        }
    }
}

std::int64_t PreadPool::staging_bytes() const {
    std::int64_t sum = 0;
    for (Worker const& worker : workers_) {
        sum += worker.staging.size_bytes();
    }
    return sum;
}

Result<void> PreadPool::register_memory(std::span<std::byte>) {
    return Error{Errc::unsupported, "no io_uring here to register memory with", options_.label};
}

void PreadPool::start(std::unique_ptr<FileTransfer> transfer) {
    {
        MutexLock const lock(guard_);
        waiting_[static_cast<std::size_t>(transfer->way)].push(transfer.get());
        static_cast<void>(transfer.release());  // owned by the threads until `end_piece`
    }
    changed_.notify_all();
}

void PreadPool::run(Worker const& worker) {
    enter_io_thread("spillway-file");
    MutexLock const lock(guard_);
    while (true) {
        Piece piece;
        if (take_piece(piece)) {
            Result<void> result;
            {
                MutexUnlock const unlocked(guard_);
                result = move(piece, worker.staging);
            }
            end_piece(piece, result);
        } else if (stopping_) {
            return;
        } else {
            changed_.wait(guard_);
        }
    }
}

/// The next piece of the direction whose turn it is, else of the other.
bool PreadPool::take_piece(Piece& piece) {
    turn_ = turn_ == Direction::store ? Direction::load : Direction::store;
    auto const mine = static_cast<std::size_t>(turn_);
    Chain<FileTransfer>& queue = waiting_[mine].empty() ? waiting_[1 - mine] : waiting_[mine];
    FileTransfer* const transfer = queue.front();
    if (transfer == nullptr) {
        return false;
    }
    piece.transfer = transfer;
    piece.first = transfer->issued_bytes;
    piece.size = std::min(options_.piece_bytes, transfer->size_bytes - piece.first);
    transfer->issued_bytes += piece.size;
    ++transfer->open_pieces;
    if (transfer->all_issued()) {
        queue.pop();
        transfer->queued = false;
    }
    return true;
}

void PreadPool::end_piece(Piece const& piece, Result<void> const& result) {
    FileTransfer& transfer = *piece.transfer;
    --transfer.open_pieces;
    if (!result.ok()) {
        transfer.fail(result.error());
        if (transfer.queued) {  // it is its queue's first: later pieces are not issued
            waiting_[static_cast<std::size_t>(transfer.way)].pop();
            transfer.queued = false;
        }
    }
    if (!transfer.queued && transfer.open_pieces == 0) {
        MutexUnlock const unlocked(guard_);
        std::unique_ptr<FileTransfer> const owner(&transfer);
        owner->finished(*owner);
    }
}

bool PreadPool::in_place(Piece const& piece) const {
    auto const address = reinterpret_cast<std::uintptr_t>(piece.transfer->memory);
    return !options_.direct || (address % kBlockAlign == 0 && piece.size % kBlockAlign == 0);
}

Result<void> PreadPool::move(Piece const& piece, AlignedBuffer const& staging) const {
    bool const is_store = piece.transfer->way == Direction::store;
    Result<void> moved = is_store ? store(piece, staging) : load(piece, staging);
    if (moved.ok() && !options_.direct) {
        std::int64_t const at = piece.transfer->file_offset + piece.first;
        if (is_store) {
            unsigned const write_back =
                SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
            if (::sync_file_range(options_.fd, at, piece.size, write_back) != 0) {
                moved = transfer_error(
                    "bytes cannot be written",
                    errno,
                    fmt::format("{}, offset {}", options_.label, at)
                );
            }
        }
        ::posix_fadvise(options_.fd, at, piece.size, POSIX_FADV_DONTNEED);
    }
    return moved;
}

Result<void> PreadPool::store(Piece const& piece, AlignedBuffer const& staging) const {
    FileTransfer const& transfer = *piece.transfer;
    std::byte* memory = transfer.memory + piece.first;
    auto const size = static_cast<std::size_t>(piece.size);
    transfer.checksums[piece.first / options_.piece_bytes] = checksum_of({memory, size});
    std::int64_t io_size = piece.size;
    if (!in_place(piece)) {
        io_size = round_up(piece.size, kBlockAlign);
        std::memcpy(staging.data(), memory, size);
        std::memset(staging.data() + size, 0, static_cast<std::size_t>(io_size) - size);
        memory = staging.data();
    }
    return move_all(Direction::store, memory, io_size, transfer.file_offset + piece.first);
}

Result<void> PreadPool::load(Piece const& piece, AlignedBuffer const& staging) const {
    FileTransfer const& transfer = *piece.transfer;
    std::byte* const memory = transfer.memory + piece.first;
    std::int64_t const offset = transfer.file_offset + piece.first;
    auto const size = static_cast<std::size_t>(piece.size);
    bool const here = in_place(piece);
    Result<void> read = move_all(
        Direction::load,
        here ? memory : staging.data(),
        here ? piece.size : round_up(piece.size, kBlockAlign),
        offset
    );
    if (!read.ok()) {
        return read;
    }
    if (!here) {
        std::memcpy(memory, staging.data(), size);
    }
    if (checksum_of({memory, size}) != transfer.checksums[piece.first / options_.piece_bytes]) {
        return corrupt_piece(options_.label, offset, piece.size);
    }
    return {};
}

Result<void> PreadPool::move_all(
    Direction way, std::byte* memory, std::int64_t size_bytes, std::int64_t file_offset
) const {
    std::int64_t const unit = options_.direct ? kBlockAlign : 1;
    std::int64_t moved = 0;
    int tries = 0;
    while (moved < size_bytes) {
        auto const left = static_cast<std::size_t>(size_bytes - moved);
        std::int64_t const at = file_offset + moved;
        std::int64_t const result = way == Direction::store
                                        ? ::pwrite(options_.fd, memory + moved, left, at)
                                        : ::pread(options_.fd, memory + moved, left, at);
        bool const passing = result > 0 || (result < 0 && (errno == EINTR || errno == EAGAIN));
        if (!passing || ++tries > 1000) {
            return transfer_error(
                fmt::format(
                    "{} bytes cannot be {}", left, way == Direction::store ? "written" : "read"
                ),
                result < 0 ? errno : EIO,
                fmt::format("{}, offset {}", options_.label, at)
            );
        }
        moved += result > 0 ? std::max<std::int64_t>(result / unit * unit, 0) : 0;
    }
    return {};
}

}  // namespace spillway
