// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/coded_blocks.h"

#include "base/assert.h"

#include <algorithm>
#include <utility>

namespace spillway {

namespace {

bool is_coded_load(Move const& move) {
    return move.is_coded && move.is_transfer() && !move.is_store();
}

}  // namespace

void CodedBlocks::add(BlockId block, BlockCode const& code, std::int64_t room_bytes) {
    bool const fresh = blocks_.try_emplace(block, Coded{code, room_bytes}).second;
    SPILLWAY_ASSERT(fresh, "a block is encoded once");
    SPILLWAY_ASSERT(room_bytes <= most_bytes(), "a coded block fits half of its staging");
}

void CodedBlocks::remove(BlockId block) noexcept {
    auto const coded = blocks_.find(block);
    if (coded == blocks_.end()) {
        return;
    }
    staging_.give_back(Direction::store, coded->second.beside);
    std::erase_if(brought_, [&](auto const& entry) {
        bool const is_its = entry.second.block == block;
        staging_.give_back(Direction::load, is_its ? entry.second.beside : std::span<std::byte>());
        return is_its;
    });
    blocks_.erase(coded);
}

bool CodedBlocks::take_staging(Move& move) {
    bool const is_load = is_coded_load(move);
    if (move.work != SideWork::encode && !is_load) {
        return true;
    }
    Coded& coded = blocks_.at(move.block);
    std::int64_t size_bytes = is_load ? coded.size_bytes : coded.room_bytes;
    SPILLWAY_ASSERT(size_bytes > 0, "a coded block is loaded after it was encoded");
    if (move.route == Route::coded) {
        Encoding const& encoding = coded.code.encoding;
        size_bytes += Windows(encoding, kSampledWindows).elements() * size_of(encoding.dtype);
    }
    std::span<std::byte>& beside = is_load ? move.beside : coded.beside;
    beside = staging_.take(move.way, size_bytes);
    return !beside.empty();
}

void CodedBlocks::give_staging_back(Move const& move, bool ended_well) {
    if (!move.is_coded) {
        return;
    }
    if (move.is_store()) {
        bool const is_wanted = move.work == SideWork::encode && ended_well;
        std::span<std::byte>& beside = blocks_.at(move.block).beside;
        if (!is_wanted) {
            staging_.give_back(Direction::store, std::exchange(beside, {}));
        }
        return;
    }
    if (move.is_transfer()) {
        if (ended_well) {
            brought_.emplace(move.fence, Brought{move.block, move.beside});
        } else {
            staging_.give_back(Direction::load, move.beside);
        }
        return;
    }
    for (CommandId const load : move.after) {
        if (auto const brought = brought_.extract(load)) {
            staging_.give_back(Direction::load, brought.mapped().beside);
        }
    }
}

std::span<std::byte> CodedBlocks::brought_for(Move const& move) const {
    auto const load = std::find_if(move.after.begin(), move.after.end(), [this](CommandId fence) {
        return brought_.contains(fence);
    });
    SPILLWAY_ASSERT(load != move.after.end(), "a decode names the load of its coded block");
    return brought_.at(*load).beside;
}

std::span<std::byte> CodedBlocks::staging_of(Move const& move) const {
    if (move.is_store()) {
        return blocks_.at(move.block).beside;
    }
    return move.is_transfer() ? move.beside : brought_for(move);
}

std::span<std::byte> CodedBlocks::bytes_for_tier(Move const& move) const {
    if (!move.is_coded) {
        return move.device.bytes;
    }
    if (!move.is_store()) {
        return move.beside;
    }
    Coded const& coded = blocks_.at(move.block);
    return coded.beside.first(static_cast<std::size_t>(coded.size_bytes));
}

CodingJob CodedBlocks::job_of(Move const& move) const {
    BlockCode const& code = code_of(move.block);
    std::span<std::byte> const staging = staging_of(move);
    CodingJob job{.fence = move.fence, .code = code};
    if (move.route == Route::coded) {
        if (!move.is_store()) {
            job.task = CodingTask::check;
            job.from = staging;
            return job;
        }
        auto const size = static_cast<std::size_t>(*encoded_bytes(code.encoding));
        job.task = CodingTask::seal;
        job.from = staging.subspan(size);
        job.to = staging.first(size);
        return job;
    }
    auto const raw_bytes = static_cast<std::size_t>(code.encoding.raw_bytes());
    bool const fits = raw_bytes <= move.device.bytes.size();
    SPILLWAY_ASSERT(fits, "an encoding is of its value's bytes");
    std::span<std::byte> const raw = move.device.bytes.first(raw_bytes);
    job.task = move.is_store() ? CodingTask::encode : CodingTask::decode;
    job.from = move.is_store() ? raw : staging;
    job.to = move.is_store() ? staging : raw;
    return job;
}

Result<void> CodedBlocks::finish(
    CodingJob const& job, Move const& move, CodingResult const& result, std::int64_t device_ns
) {
    if (!result.outcome.ok()) {
        tally_.of(job.code).went_raw += job.is_encode() ? 1 : 0;
        return result.outcome;
    }
    if (job.task == CodingTask::check) {
        return {};  // its decode is to come
    }
    std::int64_t const host_ns = result.time.end_ns - result.time.start_ns;
    CodingCounters& counters = tally_.of(job.code);
    if (job.task == CodingTask::decode) {
        counters.decoded_bytes += std::ssize(job.to);
        counters.decode_ns += host_ns;
        return {};
    }
    blocks_.at(move.block).size_bytes = result.size_bytes;
    ++counters.values;
    counters.elements += job.code.encoding.count;
    counters.raw_bytes += job.code.encoding.raw_bytes();
    counters.encoded_bytes += result.size_bytes;
    counters.encode_ns += job.task == CodingTask::seal ? device_ns : host_ns;
    counters.sums.of_errors += result.sums.of_errors;
    counters.sums.of_values += result.sums.of_values;
    return {};
}

void CodedBlocks::decoded_by_device(BlockId block, std::int64_t device_ns) {
    BlockCode const& code = code_of(block);
    CodingCounters& counters = tally_.of(code);
    counters.decoded_bytes += code.encoding.raw_bytes();
    counters.decode_ns += device_ns;
}

}  // namespace spillway
