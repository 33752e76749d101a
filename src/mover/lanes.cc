// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/lanes.h"

#include "base/assert.h"

#include <algorithm>
#include <utility>

namespace spillway {

std::string_view Move::name() const {
    if (is_transfer()) {
        return is_store() ? "store" : "load";
    }
    return name_of(work);
}

std::size_t Lanes::lane_of(Move const& move) {
    if (move.work == SideWork::encode) {
        return 4U;
    }
    if (move.work == SideWork::decode) {
        return move.pool == Pool::host ? 5U : 6U;
    }
    return (move.pool == Pool::host ? 0U : 2U) + (move.is_store() ? 0U : 1U);
}

Move& Lanes::add(Move move) {
    CommandId const fence = move.fence;
    auto const [entry, fresh] = moves_.emplace(fence, std::move(move));
    SPILLWAY_ASSERT(fresh, "a fence is given once");
    waiting_[lane_of(entry->second)].push_back(&entry->second);
    return entry->second;
}

Move* Lanes::find(CommandId fence) {
    auto const entry = moves_.find(fence);
    return entry == moves_.end() ? nullptr : &entry->second;
}

// A copy waits on its stream for another copy; a tier waits for the end of what it needs.
bool Lanes::may_go(Move const& move) const {
    return std::all_of(move.after.begin(), move.after.end(), [&](CommandId fence) {
        auto const other = moves_.find(fence);
        return other == moves_.end() ||
               (move.route == Route::copied && other->second.is_on_a_stream());
    });
}

Move* Lanes::ready(std::size_t lane) {
    if (waiting_[lane].empty()) {
        return nullptr;
    }
    Move* const head = waiting_[lane].front();
    return may_go(*head) || failure_of(*head) ? head : nullptr;
}

std::optional<Failure> Lanes::failure_of(Move const& move) const {
    for (CommandId const fence : move.after) {
        if (auto const failed = failed_.find(fence); failed != failed_.end()) {
            return failed->second;
        }
    }
    return std::nullopt;
}

void Lanes::start(Move& move) {
    std::deque<Move*>& lane = waiting_[lane_of(move)];
    SPILLWAY_ASSERT(lane.front() == &move, "a lane starts in order");
    lane.pop_front();
    move.started = true;
}

Move Lanes::end(CommandId fence, std::optional<Failure> failure) {
    auto const entry = moves_.find(fence);
    SPILLWAY_ASSERT(entry != moves_.end() && entry->second.started, "what ends was started");
    Move move = std::move(entry->second);
    moves_.erase(entry);
    if (failure) {
        failed_.emplace(fence, std::move(*failure));
    }
    return move;
}

void Lanes::forget(std::span<CommandId const> failed) {
    for (CommandId const fence : failed) {
        failed_.erase(fence);
    }
}

Move const* Lanes::oldest() const {
    auto const first =
        std::min_element(moves_.begin(), moves_.end(), [](auto const& one, auto const& other) {
            return one.first < other.first;
        });
    return first == moves_.end() ? nullptr : &first->second;
}

std::vector<Move> Lanes::drop_waiting() {
    std::vector<Move> dropped;
    for (std::deque<Move*>& lane : waiting_) {
        for (Move* const move : lane) {
            dropped.push_back(std::move(*move));
            moves_.erase(dropped.back().fence);
        }
        lane.clear();
    }
    return dropped;
}

}  // namespace spillway
