// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Why the runtime refused an allocation, and what it reports while it goes on: numbers and codes.
// Words are made where a user reads them.
#pragma once

#include "base/option.h"
#include "base/phase.h"
#include "base/place.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

/// Why no room could be made.
enum class NoRoom : std::uint8_t {
    moves_nothing,    ///< the policy is keep_all
    no_pool,          ///< there is neither a host nor an NVMe budget
    pools_full,       ///< what could leave has nowhere to go: Refusal::host, Refusal::nvme
    nothing_to_move,  ///< no saved tensor is left that may leave, or all have left
    outer_full,       ///< a session around this one has no room: the bytes are of its budget
};

/// Why an away pool takes none of the values that could leave.
enum class PoolState : std::uint8_t {
    absent,     ///< it has no budget
    full,       ///< its budget is
    failed,     ///< it refused a store: PoolRefusal::error
    too_short,  ///< they are all longer than what may go there
};

[[nodiscard]] std::string_view name_of(NoRoom why);
[[nodiscard]] std::string_view name_of(PoolState state);

struct PoolRefusal {
    PoolState state = PoolState::absent;
    std::string error;  ///< of the system or the tier, for `failed`

    bool operator==(PoolRefusal const&) const = default;
};

/// An allocation that does not fit under the device limit. Bytes as the device's allocator rounds.
struct Refusal {
    NoRoom why = NoRoom::nothing_to_move;
    std::int64_t asked_bytes = 0;
    std::int64_t used_bytes = 0;    ///< at the question
    std::int64_t limit_bytes = 0;   ///< 0: the device itself had no room
    std::int64_t freed_bytes = 0;   ///< of the used ones, what could leave
    std::int64_t needed_bytes = 0;  ///< the limit under which this allocation would have fitted
    std::int64_t held_bytes = 0;    ///< of saved tensors that something else holds
    PoolRefusal host{};             ///< both set for NoRoom::pools_full
    PoolRefusal nvme{};
    // By the session, for its user; in no log.
    bool is_in_pieces = false;  ///< the limit has room, but the device none that is so long
    std::int64_t step = 0;
    Phase phase = Phase::setup;
    /// About what a whole step needs: once every parameter has a gradient, and once an optimizer
    /// has its state, too (Adam's, if none has stepped yet). 0: not known, or no more.
    std::int64_t with_gradients_bytes = 0;
    std::int64_t with_optimizer_bytes = 0;
    std::string opened_at{};  ///< SessionOptions::opened_at of the session whose budget it is

    bool operator==(Refusal const&) const = default;
};

/// What is reported to the user once, while the step goes on.
enum class NoticeCode : std::uint8_t {
    pool_closed,  ///< `pool` takes no more in this step
    not_encoded,  ///< a value leaves as it is, since its codec refused it
    not_loaded,   ///< a load failed; if it was read ahead, it is tried again
};

[[nodiscard]] std::string_view name_of(NoticeCode code);

struct Notice {
    NoticeCode code = NoticeCode::pool_closed;
    Pool pool = Pool::device;  ///< of `pool_closed`
    std::string error;         ///< of the system, the tier or the codec

    bool operator==(Notice const&) const = default;
};

/// One line each, without an end.
[[nodiscard]] std::string words_of(Refusal const& refusal, Face face);
[[nodiscard]] std::string words_of(Notice const& notice);

}  // namespace spillway
