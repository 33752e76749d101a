// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Copy lanes in virtual time: each runs its transfers in order; lanes share links and groups.
#pragma once

#include "base/ids.h"
#include "base/place.h"
#include "executor/command.h"
#include "machine/machine.h"

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace spillway {

enum class FenceState : std::uint8_t { unknown, pending, passed, failed };

/// What became of every command so far.
class Fences {
  public:
    [[nodiscard]] FenceState of(CommandId id) const {
        return id.valid() && id.index() < states_.size() ? states_[id.index()]
                                                         : FenceState::unknown;
    }
    void set(CommandId id, FenceState state) {
        if (id.index() >= states_.size()) {
            states_.resize(id.index() + 1, FenceState::unknown);
        }
        states_[id.index()] = state;
    }
    /// Failed if one has failed, else pending if one has not passed, else passed.
    [[nodiscard]] FenceState of(std::vector<CommandId> const& ids) const;

  private:
    std::vector<FenceState> states_;
};

/// A store, load or run on its way.
struct Transfer {
    Command command;
    bool fails = false;  ///< at its end
};

/// One that has ended. Half-open: it was on its lane in [start_ns, end_ns).
struct TransferEnd {
    Transfer transfer;
    bool ok = true;
    bool started = true;  ///< false: a fence that it waited for had failed
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
};

/// Note [How transfers share]
/// A link gives its one-way rate, or its both-ways rate while the link in the other direction moves
/// bytes too. Links of one share group are slowed down by one factor when together they would be
/// faster than the group. Rates change only when a transfer starts or ends to move bytes.
/// The side lane runs one encode or decode at a time, at a rate of its own; decodes, which compute
/// waits for, go first, each kind in order.
class VirtualLanes {
  public:
    static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max() / 4;

    VirtualLanes(Machine const& machine, Fences& fences, std::uint64_t seed, double jitter)
        : machine_(machine), fences_(fences), random_(seed), jitter_(jitter) {}

    /// Of raw bytes; without this call runs take no time.
    void set_codec_rates(double encode_bytes_per_s, double decode_bytes_per_s) {
        encoder_.rate_bytes_per_s = encoder_.both_ways_rate_bytes_per_s = encode_bytes_per_s;
        decoder_.rate_bytes_per_s = decoder_.both_ways_rate_bytes_per_s = decode_bytes_per_s;
    }

    void push(Transfer transfer);

    /// Lets time pass until a transfer ends, at most to `until_ns`; none: nothing ended by then.
    /// With nothing to run, `kForever` leaves the clock where it is.
    [[nodiscard]] std::optional<TransferEnd> advance(std::int64_t until_ns);

    [[nodiscard]] std::int64_t now_ns() const { return now_ns_; }
    /// Of the time that has passed, that in which bytes moved to or from the device.
    [[nodiscard]] std::int64_t device_moves_ns() const { return device_moves_ns_; }

  private:
    /// Between one place and itself, so that no link is its way back.
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();
    inline static MachineLink const kAtOnce{
        Pool::device, Pool::device, kInfinity, kInfinity, 0, ""};

    struct Active {
        Transfer transfer;
        MachineLink const* link = nullptr;
        double left_bytes = 0;
        double rate_bytes_per_s = 0;
        std::int64_t start_ns = 0;
        std::int64_t moves_from_ns = 0;  ///< its latency is over
    };

    static constexpr std::size_t kDecodes = 0;  ///< before the queues of the lanes
    static constexpr std::size_t kQueues = 1 + kLanes;

    [[nodiscard]] std::optional<TransferEnd> start_heads();
    [[nodiscard]] MachineLink const* link_for(Command const& command) const;
    void start(Transfer transfer, std::optional<Active>& place);
    void set_rates();
    void share_groups();
    [[nodiscard]] bool moves(Active const& active) const;
    [[nodiscard]] bool moves_device_bytes() const;
    [[nodiscard]] std::int64_t next_change_ns() const;
    void pass_until(std::int64_t at_ns);
    [[nodiscard]] std::optional<TransferEnd> take_ended();

    Machine const& machine_;
    Fences& fences_;
    std::mt19937_64 random_;
    double jitter_;
    MachineLink encoder_ = kAtOnce;
    MachineLink decoder_ = kAtOnce;
    std::int64_t now_ns_ = 0;
    std::int64_t device_moves_ns_ = 0;
    std::array<std::deque<Transfer>, kQueues> queues_;
    std::array<std::optional<Active>, kLanes> active_;
};

}  // namespace spillway
