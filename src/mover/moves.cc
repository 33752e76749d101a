// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/moves.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/ordering_rules.h"
#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace spillway {

namespace {

bool names(std::vector<CommandId> const& fences, CommandId fence) {
    return std::find(fences.begin(), fences.end(), fence) != fences.end();
}

Error cancelled(Failure const& failure) {
    return {
        Errc::cancelled,
        fmt::format(
            "not started, since command {} failed: {}", failure.first.number, failure.error.what
        ),
        failure.error.where};
}

Error undecodable(Error const& error, Tier const& tier) {
    return {error.code, "what was stored cannot be decoded: " + error.message(), tier.name()};
}

}  // namespace

Moves::Moves(Device& device, MoverOptions const& options)
    : device_(device),
      measure_(options.measure),
      device_coding_(device, options.coder.get(), options.coded.bytes()),
      coded_(options.coded),
      copies_(device, lanes_, options.staging.bytes(), options.measure) {}

void Moves::add_room(BlockId block, Pool pool, Tier& tier, Reservation bytes) {
    bool const fresh = rooms_.try_emplace(block, Room{pool, &tier, std::move(bytes)}).second;
    SPILLWAY_ASSERT(fresh, "a block is reserved once");
}

Reservation Moves::take_room(BlockId block) noexcept {
    auto const room = rooms_.find(block);
    SPILLWAY_ASSERT(room != rooms_.end(), "a block is released once, after it was reserved");
    SPILLWAY_ASSERT(room->second.moves == 0, "a block is released after its stores and loads");
    coded_.remove(block);
    lanes_.forget(room->second.failed);
    Reservation bytes = std::move(room->second.bytes);
    rooms_.erase(room);
    return bytes;
}

std::int64_t Moves::most_coded_bytes() const {
    std::int64_t const most = coded_.most_bytes();
    if (device_.is_host()) {
        return most;
    }
    return device_coding_.has_memory() ? std::max<std::int64_t>(most - kMostSampledBytes, 0) : 0;
}

void Moves::set_code(BlockId block, BlockCode const& code) {
    auto const room = rooms_.find(block);
    SPILLWAY_ASSERT(room != rooms_.end(), "a block is reserved before it is used");
    std::int64_t const room_bytes = room->second.bytes.size_bytes();
    SPILLWAY_ASSERT(room_bytes <= most_coded_bytes(), "a coded block fits half of its staging");
    coded_.add(block, code, room_bytes);
}

Route Moves::route_of(Move const& move, Room const& room) const {
    if (device_.is_host() || (move.is_coded && move.is_transfer())) {
        return Route::in_place;
    }
    if (move.is_coded) {
        return Route::coded;
    }
    return room.tier->memory(room.bytes).empty() ? Route::staged : Route::copied;
}

std::size_t Moves::give(Move move) {
    auto const room = rooms_.find(move.block);
    SPILLWAY_ASSERT(room != rooms_.end(), "a block is reserved before it is used");
    move.is_coded = is_coded(move.block);
    bool const has_bytes = (move.is_coded && move.is_transfer()) || !move.device.bytes.empty();
    SPILLWAY_ASSERT(has_bytes, "a block has at least one byte");
    move.pool = room->second.pool;
    move.route = route_of(move, room->second);
    ++room->second.moves;
    if (move.route != Route::in_place) {
        copies_.note_positions(move);
    }
    return Lanes::lane_of(lanes_.add(std::move(move)));
}

bool Moves::take_staging(Move& move) {
    return move.route == Route::staged
               ? copies_.take_staging(move, rooms_.at(move.block).bytes.size_bytes())
               : coded_.take_staging(move);
}

std::optional<Outside> Moves::start_next(std::size_t lane) {
    Move* const move = lanes_.ready(lane);
    if (move == nullptr) {
        return std::nullopt;
    }
    std::optional<Failure> failure = lanes_.failure_of(*move);
    if (!failure && !take_staging(*move)) {
        return std::nullopt;  // until some is given back
    }
    lanes_.start(*move);
    if (!failure) {
        return start(*move);
    }
    // A decode whose load failed reports the load's own error, not that it was cancelled.
    bool const is_own = move->work == SideWork::decode && names(move->after, failure->first);
    Error const error = is_own ? failure->error : cancelled(*failure);
    end(move->fence, error, std::move(failure));
    return Outside{};
}

Outside Moves::start(Move& move) {
    switch (move.route) {
        case Route::in_place:
            if (move.is_transfer()) {
                return call_tier(move, coded_.bytes_for_tier(move));
            }
            return coded_.job_of(move);
        case Route::copied:
            enqueue_copy(move);
            return {};
        case Route::staged:
            if (move.is_store()) {
                enqueue_copy(move);
                return {};
            }
            if (!keeps(OrderingRule::staging_is_copied_after_the_load)) {
                enqueue_copy(move);
            }
            return call_tier(move, move.beside);
        case Route::coded:
            if (!move.is_store()) {
                return coded_.job_of(move);
            }
            device_coding_.encode(move, coded_.code_of(move.block), coded_.staging_of(move));
            is_on_its_way(move);
            return {};
    }
    return {};
}

TierCall Moves::call_tier(Move& move, std::span<std::byte> bytes) {
    move.on_tier.start_ns = measure_ ? steady_now_ns() : 0;
    Room const& room = rooms_.at(move.block);  // stays put while the move lives
    return {move.fence, room.tier, &room.bytes, bytes, move.is_store()};
}

void Moves::enqueue_copy(Move& move) {
    if (move.route == Route::copied) {
        Room const& room = rooms_.at(move.block);
        move.beside = room.tier->memory(room.bytes);
    }
    Result<void> const enqueued = copies_.enqueue(move);
    if (!enqueued.ok()) {
        fail(move.fence, enqueued.error());
        return;
    }
    news_.started |= move.route == Route::staged;
}

/// What a device encodes or decodes is looked for from now on.
void Moves::is_on_its_way(Move& move) {
    copies_.add_coded(move);
    news_ = {.ended = true, .started = true};
}

void Moves::enqueue_decode(Move& move) {
    Encoding const& encoding = coded_.code_of(move.block).encoding;
    device_coding_.decode(move, encoding, coded_.staging_of(move));
    is_on_its_way(move);
    if (!keeps(OrderingRule::coded_room_outlives_the_decode)) {
        coded_.give_staging_back(move, true);
    }
}

void Moves::tier_ended(CommandId fence, Result<void> outcome) {
    Move* const move = lanes_.find(fence);
    SPILLWAY_ASSERT(move != nullptr, "a tier ends what it was given, once");
    move->on_tier.end_ns = measure_ ? steady_now_ns() : 0;
    if (!outcome.ok()) {
        fail(fence, outcome.error());
    } else if (move->route == Route::staged && !move->is_store()) {
        loaded_.push_back(fence);
        news_ = {.ended = true, .started = true};
    } else {
        end(fence, {}, std::nullopt);
    }
}

void Moves::coded(CodingJob const& job, CodingResult const& result) {
    Move& move = *lanes_.find(job.fence);
    bool const is_sealed = job.task == CodingTask::seal && result.outcome.ok();
    Result<void> const outcome = coded_.finish(
        job, move, result, is_sealed ? device_.elapsed_ns(move.begun, move.half_ended) : 0
    );
    if (!outcome.ok()) {
        Tier const& tier = *rooms_.at(move.block).tier;
        fail(job.fence, job.is_encode() ? outcome.error() : undecodable(outcome.error(), tier));
    } else if (job.task == CodingTask::check) {
        enqueue_decode(move);
    } else {
        if (measure_ && move.route == Route::in_place) {
            move.on_codec = result.time;
        }
        end(job.fence, {}, std::nullopt);
    }
}

void Moves::begin_advance() {
    for (CommandId const fence : std::exchange(loaded_, {})) {
        enqueue_copy(*lanes_.find(fence));
    }
    copies_.pass_stalls();
}

std::optional<Outside> Moves::advance(std::size_t queue) {
    Move* const passed = copies_.take_passed(queue);
    if (passed == nullptr) {
        return std::nullopt;
    }
    Move& move = *passed;
    if (move.refusal) {
        fail(move.fence, Error(*move.refusal));
        return Outside{};
    }
    if (move.route == Route::coded) {
        Encoding const& encoding = coded_.code_of(move.block).encoding;
        std::int64_t const took_ns = copies_.count_coded(move, *encoded_bytes(encoding));
        if (move.is_store()) {
            return coded_.job_of(move);
        }
        coded_.decoded_by_device(move.block, took_ns);
    } else {
        copies_.count(move);
        if (move.route == Route::staged && move.is_store()) {
            std::span<std::byte> const bytes = move.beside;
            if (!keeps(OrderingRule::staging_outlives_the_store)) {
                copies_.give_staging_back(move);
            }
            return call_tier(move, bytes);
        }
    }
    end(move.fence, {}, std::nullopt);
    return Outside{};
}

void Moves::fail(CommandId fence, Error const& error) {
    end(fence, error, Failure{fence, error});
}

void Moves::end(CommandId fence, Result<void> outcome, std::optional<Failure> failure) {
    bool const has_failed = failure.has_value();
    Move move = lanes_.end(fence, std::move(failure));
    Room& room = rooms_.at(move.block);
    if (has_failed) {
        room.failed.push_back(fence);
    }
    copies_.give_staging_back(move);
    coded_.give_staging_back(move, outcome.ok());
    --room.moves;
    ended_.push_back(
        {{fence, std::move(outcome), move.on_codec, move.on_tier, move.on_stream},
         std::move(move.device.hold)}
    );
    news_.ended = true;
}

bool Moves::is_settled(CommandId fence) {
    Move const* const move = lanes_.find(fence);
    return move == nullptr || StreamCopies::streams_can_wait_for(*move);
}

void Moves::order_streams_after(
    CommandId fence, std::vector<std::shared_ptr<void const>>& released
) {
    if (Move* const move = lanes_.find(fence)) {
        copies_.order_streams_after(*move, released);
    }
}

std::string Moves::describe_oldest() const {
    Move const* const oldest = lanes_.oldest();
    if (oldest == nullptr) {
        return {};
    }
    Room const& room = rooms_.at(oldest->block);
    return fmt::format(
        "{}: a {} of {} (command {}) has {}; {} are under way",
        room.tier->name(),
        oldest->name(),
        format_size(room.bytes.size_bytes()),
        oldest->fence.number,
        oldest->started ? "not ended" : "not started",
        lanes_.under_way()
    );
}

}  // namespace spillway
