// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The mover's encodes and decodes, and the memory for coded bytes between them and the tiers.

#include "mover/mover_impl.h"
#include "tier/transfer.h"

#include <algorithm>
#include <utility>

namespace spillway {

namespace {

std::size_t index_of(SideWork work) {
    return work == SideWork::encode ? 0 : 1;
}

}  // namespace

void Mover::Impl::start_codec_threads() {
    if (most_coded_bytes() == 0) {
        return;
    }
    for (int i = 0; i < options_.codec_threads; ++i) {
        codecs_.emplace_back([this] { run_codec(); });
    }
}

/// After what they have: nothing may be given any more.
void Mover::Impl::stop_codec_threads() {
    {
        std::lock_guard const lock(guard_);
        codecs_stopping_ = true;
        codec_cv_.notify_all();
    }
    for (std::thread& codec : codecs_) {
        codec.join();
    }
}

void Mover::Impl::run_codec() {
    enter_io_thread("spillway-codec");
    device_->enter_thread();
    auto& [encodes, decodes] = to_code_;
    Lock lock(guard_);
    while (true) {
        codec_cv_.wait(lock, [&] {
            return codecs_stopping_ || !decodes.empty() || !encodes.empty();
        });
        std::deque<CommandId>& first = decodes.empty() ? encodes : decodes;
        if (first.empty()) {
            return;
        }
        CommandId const fence = first.front();
        first.pop_front();
        do_coding(fence, lock);
    }
}

void Mover::Impl::set_code(BlockId block, BlockCode const& code) {
    std::lock_guard const lock(guard_);
    auto const room = rooms_.find(block);
    SPILLWAY_ASSERT(room != rooms_.end(), "a block is reserved before it is used");
    SPILLWAY_ASSERT(!room->second.coded, "a block is encoded once");
    SPILLWAY_ASSERT(codes(code.encoding.codec), "a device takes the codec that it is asked for");
    bool const fits = room->second.bytes.size_bytes() <= most_coded_bytes();
    SPILLWAY_ASSERT(fits, "a coded block fits half of its staging");
    room->second.coded = Coded{code};
}

/// False: there is no room now.
bool Mover::Impl::take_coded_staging(Move& move) {
    bool const is_load = move.is_coded && move.is_transfer() && !move.is_store();
    if (move.work != SideWork::encode && !is_load) {
        return true;
    }
    Room& room = rooms_.at(move.block);
    std::int64_t size_bytes = is_load ? room.coded->size_bytes : room.bytes.size_bytes();
    SPILLWAY_ASSERT(size_bytes > 0, "a coded block is loaded after it was encoded");
    if (move.route == Route::coded) {
        Encoding const& encoding = room.coded->code.encoding;
        size_bytes += Windows(encoding, kSampledWindows).elements() * size_of(encoding.dtype);
    }
    std::span<std::byte>& beside = is_load ? move.beside : room.coded->beside;
    beside = coded_staging_.take(move.way, size_bytes);
    return !beside.empty();
}

/// Of a move that has ended.
void Mover::Impl::give_coded_staging_back(Move const& move, bool ended_well) {
    if (!move.is_coded) {
        return;
    }
    if (move.is_store()) {
        bool const is_wanted = move.work == SideWork::encode && ended_well;
        std::span<std::byte>& beside = rooms_.at(move.block).coded->beside;
        if (!is_wanted) {
            coded_staging_.give_back(Direction::store, std::exchange(beside, {}));
        }
        return;
    }
    if (move.is_transfer()) {
        if (ended_well) {
            brought_.emplace(move.fence, Brought{move.block, move.beside});
        } else {
            coded_staging_.give_back(Direction::load, move.beside);
        }
        return;
    }
    for (CommandId const load : move.after) {
        if (auto const brought = brought_.extract(load)) {
            coded_staging_.give_back(Direction::load, brought.mapped().beside);
        }
    }
}

/// What neither a store nor a decode came for.
void Mover::Impl::give_coded_staging_back(BlockId block, Room& room) noexcept {
    if (!room.coded) {
        return;
    }
    coded_staging_.give_back(Direction::store, std::exchange(room.coded->beside, {}));
    std::erase_if(brought_, [&](auto const& entry) {
        bool const is_its = entry.second.block == block;
        coded_staging_.give_back(
            Direction::load, is_its ? entry.second.beside : std::span<std::byte>()
        );
        return is_its;
    });
}

/// What a tier stores or fills where no stream is between.
std::span<std::byte> Mover::Impl::bytes_for_tier(Move const& move) const {
    if (!move.is_coded) {
        return move.device.bytes;
    }
    if (!move.is_store()) {
        return move.beside;
    }
    Coded const& coded = *rooms_.at(move.block).coded;
    return coded.beside.first(static_cast<std::size_t>(coded.size_bytes));
}

void Mover::Impl::start_coding(Move& move, Lock& lock) {
    if (codecs_.empty()) {
        do_coding(move.fence, lock);
        return;
    }
    to_code_[index_of(move.work)].push_back(move.fence);
    codec_cv_.notify_one();
}

/// Called with the lock held, which is let go of for the work itself.
void Mover::Impl::do_coding(CommandId fence, Lock& lock) {
    Move& move = *lanes_.find(fence);  // stays put while it lives, as its room does
    Result<void> const outcome = code(move, lock);
    if (!outcome.ok()) {
        fail(fence, outcome.error());
    } else if (move.route == Route::coded && !move.is_store()) {
        enqueue_decode(move);
    } else {
        end(fence, {}, std::nullopt);
    }
}

/// The host's part of it.
Result<void> Mover::Impl::code(Move& move, Lock& lock) {
    if (move.route == Route::coded) {
        return move.is_store() ? seal_now(move, lock) : check_now(move, lock);
    }
    return move.is_store() ? encode_now(move, lock) : decode_now(move, lock);
}

Result<void> Mover::Impl::encode_now(Move& move, Lock& lock) {
    Coded& coded = *rooms_.at(move.block).coded;
    BlockCode const code = coded.code;
    std::span<std::byte> const to = coded.beside;
    auto const raw_bytes = static_cast<std::size_t>(code.encoding.raw_bytes());
    SPILLWAY_ASSERT(raw_bytes <= move.device.bytes.size(), "an encoding is of its value's bytes");
    std::span<std::byte const> const raw = move.device.bytes.first(raw_bytes);
    lock.unlock();
    std::int64_t const start_ns = steady_now_ns();
    Result<std::int64_t> const size = spillway::encode(code.encoding, raw, to, code.seed);
    Interval const time{start_ns, steady_now_ns()};
    SquareSums const sums = size.ok() ? sample_error(code.encoding, raw, code.seed) : SquareSums{};
    lock.lock();
    if (!size.ok()) {
        ++tally_.of(code).went_raw;
        return size.error();
    }
    move.on_codec = options_.measure ? time : Interval{};
    coded.size_bytes = *size;
    tally_.of(code).encode_ns += time.end_ns - time.start_ns;
    count_encoded(code, *size, sums);
    return {};
}

void Mover::Impl::count_encoded(
    BlockCode const& code, std::int64_t size_bytes, SquareSums const& sums
) {
    CodingCounters& counters = tally_.of(code);
    ++counters.values;
    counters.elements += code.encoding.count;
    counters.raw_bytes += code.encoding.raw_bytes();
    counters.encoded_bytes += size_bytes;
    counters.sums.of_errors += sums.of_errors;
    counters.sums.of_values += sums.of_values;
}

/// What the load of a decode brought.
std::span<std::byte> Mover::Impl::brought_for(Move const& move) const {
    auto const load = std::find_if(move.after.begin(), move.after.end(), [this](CommandId fence) {
        return brought_.contains(fence);
    });
    SPILLWAY_ASSERT(load != move.after.end(), "a decode names the load of its coded block");
    return brought_.at(*load).beside;
}

Error Mover::Impl::undecodable(Move const& move, Error const& error) const {
    return {
        error.code,
        "what was stored cannot be decoded: " + error.message(),
        std::string(tier(move.pool)->name())};
}

Result<void> Mover::Impl::decode_now(Move& move, Lock& lock) {
    std::span<std::byte const> const from = brought_for(move);
    BlockCode const code = rooms_.at(move.block).coded->code;
    auto const raw_bytes = static_cast<std::size_t>(code.encoding.raw_bytes());
    SPILLWAY_ASSERT(raw_bytes <= move.device.bytes.size(), "a value comes back to its own size");
    std::span<std::byte> const to = move.device.bytes.first(raw_bytes);
    lock.unlock();
    std::int64_t const start_ns = steady_now_ns();
    Result<void> const decoded = spillway::decode(code.encoding, from, to);
    Interval const time{start_ns, steady_now_ns()};
    lock.lock();
    if (!decoded.ok()) {
        return undecodable(move, decoded.error());
    }
    move.on_codec = options_.measure ? time : Interval{};
    CodingCounters& counters = tally_.of(code);
    counters.decoded_bytes += std::ssize(to);
    counters.decode_ns += time.end_ns - time.start_ns;
    return {};
}

}  // namespace spillway
