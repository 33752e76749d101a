// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/uring_engine.h"

#include "base/units.h"
#include "tier/checksum.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace spillway {

namespace {

constexpr int kStagingBuffers = 4;
constexpr int kMostTries = 1000;
constexpr std::int64_t kMostRegistered = std::int64_t{1} << 30;  // of the kernel, a buffer

}  // namespace

Result<std::unique_ptr<IoEngine>> UringEngine::make(EngineOptions const& options) {
    std::unique_ptr<UringEngine> made(new UringEngine(options));
    Result<void> const prepared = made->prepare();
    if (!prepared.ok()) {
        return prepared.error();
    }
    made->thread_ = std::thread([engine = made.get()] { engine->run(); });
    return std::unique_ptr<IoEngine>(std::move(made));
}

UringEngine::UringEngine(EngineOptions const& options)
    : options_(options),
      pieces_(static_cast<std::size_t>(4 * options.queue_depth)),
      registered_(kRegisteredBuffers) {
    for (Piece& piece : pieces_) {
        free_pieces_.push(&piece);
    }
    for (int i = 0; i < kStagingBuffers; ++i) {
        free_staging_.push_back(i);
    }
}

Result<void> UringEngine::prepare() {
    wake_fd_ = Fd(::eventfd(0, EFD_CLOEXEC));
    if (!wake_fd_.valid()) {
        return system_error("no eventfd", errno, "");
    }
    Result<std::unique_ptr<Ring>> ring = Ring::make(options_.fd, 2 * options_.queue_depth + 2);
    if (!ring.ok()) {
        return ring.error();
    }
    ring_ = std::move(ring).value();
    Result<AlignedBuffer> staging = AlignedBuffer::make(kStagingBuffers * options_.piece_bytes);
    if (!staging.ok()) {
        return staging.error();
    }
    staging_ = std::move(staging).value();
    std::span const whole{staging_.data(), static_cast<std::size_t>(staging_.size_bytes())};
    if (register_memory(whole).ok()) {
        MutexLock const lock(guard_);
        staging_buffer_ = buffer_holding(whole.data(), staging_.size_bytes());
    }
    return {};
}

UringEngine::~UringEngine() {
    if (!thread_.joinable()) {
        return;
    }
    {
        MutexLock const lock(guard_);
        stopping_ = true;
    }
    ::eventfd_write(wake_fd_.get(), 1);
    thread_.join();
}

void UringEngine::start(std::unique_ptr<FileTransfer> transfer) {
    bool was_empty = false;
    {
        MutexLock const lock(guard_);
        transfer->buffer = buffer_holding(transfer->memory, transfer->size_bytes);
        was_empty = inbox_.empty();
        inbox_.push(transfer.release());  // owned by the thread until `end_piece`
    }
    if (was_empty) {
        ::eventfd_write(wake_fd_.get(), 1);
    }
}

Result<void> UringEngine::register_memory(std::span<std::byte> memory) {
    if (std::ssize(memory) > kMostRegistered || memory.empty()) {
        return Error{Errc::unsupported, "a registered span has 1 byte to 1 GiB", options_.label};
    }
    MutexLock const lock(guard_);
    auto const free_one = std::find_if(
        registered_.begin(), registered_.end(), [](auto const& span) { return span.empty(); }
    );
    if (free_one == registered_.end()) {
        return Error{Errc::unsupported, "too many spans are registered", options_.label};
    }
    int const index = static_cast<int>(free_one - registered_.begin());
    Result<void> pinned = ring_->register_buffer(index, memory);
    if (pinned.ok()) {
        *free_one = memory;
    }
    return pinned;
}

void UringEngine::forget_memory(std::span<std::byte> memory) noexcept {
    MutexLock const lock(guard_);
    for (std::size_t i = 0; i < registered_.size(); ++i) {
        if (registered_[i].data() == memory.data() && registered_[i].size() == memory.size()) {
            registered_[i] = {};
            ring_->forget_buffer(static_cast<int>(i));
            return;
        }
    }
}

int UringEngine::buffer_holding(std::byte const* memory, std::int64_t size_bytes) const {
    for (std::size_t i = 0; i < registered_.size(); ++i) {
        std::span<std::byte> const span = registered_[i];
        if (memory >= span.data() && memory + size_bytes <= span.data() + span.size()) {
            return static_cast<int>(i);
        }
    }
    return -1;
}

std::byte* UringEngine::staging_at(int index) const {
    return staging_.data() + index * options_.piece_bytes;
}

void UringEngine::run() {
    enter_io_thread("spillway-nvme");
    while (true) {
        take_inbox();
        issue_all();
        if (!wake_armed_ && !stop_seen_) {
            wake_armed_ = ring_->add_wake(wake_fd_.get(), &wake_value_, this);
        }
        ring_->submit(false);
        if (reap() || sum_one()) {
            continue;  // what has room for more is filled before the next sum is begun
        }
        if (can_stop()) {
            return;
        }
        ring_->submit(true);
    }
}

bool UringEngine::can_stop() const {
    bool idle = !wake_armed_ && to_sum_.empty();
    for (Queue const& queue : queues_) {
        idle = idle && queue.waiting.empty() && queue.in_flight == 0;
    }
    return stop_seen_ && idle;
}

void UringEngine::take_inbox() {
    MutexLock const lock(guard_);
    while (FileTransfer* const transfer = inbox_.pop()) {
        queue_of(transfer->way).waiting.push(transfer);
    }
    stop_seen_ = stopping_;
}

void UringEngine::issue_all() {
    bool more = true;
    while (more) {
        more = issue_next(Direction::store);
        more = issue_next(Direction::load) || more;
    }
}

bool UringEngine::issue_next(Direction way) {
    Queue& queue = queue_of(way);
    FileTransfer* const transfer = queue.waiting.front();
    if (transfer == nullptr || queue.in_flight == options_.queue_depth || free_pieces_.empty()) {
        return false;
    }
    Piece& piece = *free_pieces_.front();
    if (!set_up(piece, *transfer)) {
        return false;
    }
    free_pieces_.pop();
    piece.transfer = transfer;
    transfer->issued_bytes += piece.size;
    ++transfer->open_pieces;
    ++queue.in_flight;
    if (transfer->all_issued()) {
        queue.waiting.pop();
        transfer->queued = false;
    }
    add_to_ring(piece);
    if (way == Direction::store) {
        to_sum_.push(&piece);
    }
    return true;
}

/// False when it needs a staging buffer and none is free.
bool UringEngine::set_up(Piece& piece, FileTransfer const& transfer) {
    piece = Piece{.next = piece.next};
    piece.first = transfer.issued_bytes;
    piece.size = std::min(options_.piece_bytes, transfer.size_bytes - piece.first);
    piece.io_size = piece.size;
    if (!options_.direct) {
        return true;
    }
    piece.io_size = round_up(piece.size, kBlockAlign);
    auto const address = reinterpret_cast<std::uintptr_t>(transfer.memory);
    bool const in_place = address % kBlockAlign == 0 && piece.io_size == piece.size;
    if (in_place) {
        return true;
    }
    if (free_staging_.empty()) {
        return false;
    }
    piece.staging = free_staging_.back();
    free_staging_.pop_back();
    if (transfer.way == Direction::store) {
        std::byte* const to = staging_at(piece.staging);
        std::memcpy(to, transfer.memory + piece.first, static_cast<std::size_t>(piece.size));
        std::memset(to + piece.size, 0, static_cast<std::size_t>(piece.io_size - piece.size));
    }
    return true;
}

void UringEngine::add_to_ring(Piece& piece) {
    FileTransfer const& transfer = *piece.transfer;
    bool const staged = piece.staging >= 0;
    bool const added = ring_->add({
        .way = transfer.way,
        .memory =
            (staged ? staging_at(piece.staging) : transfer.memory + piece.first) + piece.moved,
        .size_bytes = piece.io_size - piece.moved,
        .file_offset = transfer.file_offset + piece.first + piece.moved,
        .buffer = staged ? staging_buffer_ : transfer.buffer,
        .tag = &piece,
    });
    SPILLWAY_ASSERT(added, "the ring holds every piece that may be in flight");
}

bool UringEngine::reap() {
    bool any = false;
    while (std::optional<Ring::Completion> const completion = ring_->pop()) {
        any = true;
        if (completion->tag == this) {
            wake_armed_ = false;
        } else {
            on_completion(*static_cast<Piece*>(completion->tag), completion->result);
        }
    }
    return any;
}

void UringEngine::on_completion(Piece& piece, std::int32_t result) {
    if (retry(piece, result)) {
        add_to_ring(piece);
        return;
    }
    if (piece.moved < piece.io_size) {
        FileTransfer& transfer = *piece.transfer;
        std::int64_t const at = transfer.file_offset + piece.first + piece.moved;
        transfer.fail(transfer_error(
            fmt::format(
                "{} bytes cannot be {}",
                piece.io_size - piece.moved,
                transfer.way == Direction::store ? "written" : "read"
            ),
            result < 0 ? -result : EIO,
            fmt::format("{}, offset {}", options_.label, at)
        ));
    }
    end_io(piece);
}

/// Takes the result in; true when what is left of the piece should be tried again.
bool UringEngine::retry(Piece& piece, std::int32_t result) {
    std::int64_t const unit = options_.direct ? kBlockAlign : 1;
    std::int64_t const moved = result > 0 ? result / unit * unit : 0;
    piece.moved += moved;
    piece.tries = moved > 0 ? 0 : piece.tries + 1;
    bool const passing = result > 0 || result == -EINTR || result == -EAGAIN;
    return piece.moved < piece.io_size && passing && piece.tries < kMostTries;
}

void UringEngine::end_io(Piece& piece) {
    FileTransfer& transfer = *piece.transfer;
    --queue_of(transfer.way).in_flight;
    piece.io_ended = true;
    if (piece.staging >= 0) {
        if (transfer.way == Direction::load && !transfer.error) {
            std::memcpy(
                transfer.memory + piece.first,
                staging_at(piece.staging),
                static_cast<std::size_t>(piece.size)
            );
        }
        free_staging_.push_back(piece.staging);
    }
    if (transfer.way == Direction::load) {
        to_sum_.push(&piece);
    } else if (piece.summed) {
        end_piece(piece);
    }
}

bool UringEngine::sum_one() {
    Piece* const piece = to_sum_.pop();
    if (piece == nullptr) {
        return false;
    }
    sum(*piece);
    piece->summed = true;
    if (piece->io_ended) {
        end_piece(*piece);
    }
    return true;
}

void UringEngine::sum(Piece const& piece) {
    FileTransfer& transfer = *piece.transfer;
    if (transfer.error) {
        return;  // what is left of it does not matter
    }
    std::uint64_t const found =
        checksum_of({transfer.memory + piece.first, static_cast<std::size_t>(piece.size)});
    std::uint64_t& kept = transfer.checksums[piece.first / options_.piece_bytes];
    if (transfer.way == Direction::store) {
        kept = found;
    } else if (kept != found) {
        transfer.fail(corrupt_piece(options_.label, transfer.file_offset + piece.first, piece.size)
        );
    }
}

void UringEngine::end_piece(Piece& piece) {
    FileTransfer& transfer = *piece.transfer;
    free_pieces_.push(&piece);
    --transfer.open_pieces;
    if (transfer.queued && transfer.error) {  // it is its queue's first: later ones are not issued
        queue_of(transfer.way).waiting.pop();
        transfer.queued = false;
    }
    if (!transfer.queued && transfer.open_pieces == 0) {
        std::unique_ptr<FileTransfer> const owner(&transfer);
        owner->finished(*owner);
    }
}

}  // namespace spillway
