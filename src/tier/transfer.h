// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One block on its way to or from a file, and what carries it there: the seam between the NVMe
// tier (entries, file, errors) and its two engines (io_uring; threads with pread and pwrite).
#pragma once

#include "base/result.h"
#include "tier/reservation_table.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace spillway {

/// A block cut into pieces of one I/O each. An engine issues the pieces in order; they end in any.
struct FileTransfer {
    Direction way = Direction::store;
    std::int64_t entry_number = -1;
    std::int64_t file_offset = 0;  ///< a multiple of kBlockAlign
    std::byte* memory = nullptr;   ///< a store only reads it
    std::int64_t size_bytes = 0;
    std::uint64_t* checksums = nullptr;  ///< one a piece: written by a store, checked by a load
    std::function<void(FileTransfer&)>
        finished;   ///< once, on a thread of the engine, without locks
    TierDone done;  ///< of the tier's caller

    // Kept by the engine.
    FileTransfer* next = nullptr;
    bool queued = true;  ///< pieces are left to issue
    std::int64_t issued_bytes = 0;
    std::int64_t open_pieces = 0;
    int buffer = -1;             ///< the registered buffer that holds `memory`, or -1
    std::optional<Error> error;  ///< the first; what was not issued then never is

    [[nodiscard]] bool all_issued() const { return error || issued_bytes == size_bytes; }
    void fail(Error why) {
        if (!error) {
            error = std::move(why);
        }
    }
};

/// A queue of `T` linked by `T::next`: no allocation. It does not own what is in it.
template <typename T>
class Chain {
  public:
    [[nodiscard]] bool empty() const { return first_ == nullptr; }
    [[nodiscard]] T* front() const { return first_; }
    void push(T* item) {
        item->next = nullptr;
        (first_ == nullptr ? first_ : last_->next) = item;
        last_ = item;
    }
    T* pop() {
        T* const item = first_;
        if (item != nullptr) {
            first_ = item->next;
        }
        return item;
    }

  private:
    T* first_ = nullptr;
    T* last_ = nullptr;
};

/// What an engine is given once.
struct EngineOptions {
    int fd = -1;
    bool direct = true;  ///< addresses, offsets and sizes must be aligned
    std::string label;   ///< of the file, for errors
    std::int64_t piece_bytes = std::int64_t{1} << 20;  ///< of one I/O; a multiple of kBlockAlign
    int queue_depth = 16;                              ///< pieces in flight in each direction
};

/// Carries transfers; in order of `start` for each direction, both directions at once.
///
/// Thread  every function may be called from any thread
class IoEngine {
  public:
    IoEngine() = default;
    IoEngine(IoEngine const&) = delete;
    IoEngine& operator=(IoEngine const&) = delete;
    /// Finishes what was started.
    virtual ~IoEngine() = default;

    virtual void start(std::unique_ptr<FileTransfer> transfer) = 0;
    [[nodiscard]] virtual std::int64_t staging_bytes() const = 0;

    /// See Tier::register_memory.
    [[nodiscard]] virtual Result<void> register_memory(std::span<std::byte> memory) = 0;
    virtual void forget_memory(std::span<std::byte> memory) noexcept = 0;
};

/// The work of an engine's thread is done with every signal blocked, under a name for `top`.
void enter_io_thread(char const* name);

}  // namespace spillway
