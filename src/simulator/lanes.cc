// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "simulator/lanes.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spillway {

namespace {

constexpr double kNsPerSecond = 1e9;
constexpr double kNothingLeft = 1e-3;  ///< bytes; what rounding leaves

}  // namespace

FenceState Fences::of(std::vector<CommandId> const& ids) const {
    FenceState all = FenceState::passed;
    for (CommandId const id : ids) {
        FenceState const one = of(id);
        if (one == FenceState::failed || one == FenceState::unknown) {
            return one;
        }
        all = one == FenceState::pending ? one : all;
    }
    return all;
}

void VirtualLanes::push(Transfer transfer) {
    fences_.set(transfer.command.id, FenceState::pending);
    std::size_t const queue = transfer.command.work == SideWork::decode
                                  ? kDecodes
                                  : 1 + static_cast<std::size_t>(transfer.command.lane);
    queues_[queue].push_back(std::move(transfer));
}

std::optional<TransferEnd> VirtualLanes::advance(std::int64_t until_ns) {
    for (;;) {
        if (std::optional<TransferEnd> refused = start_heads()) {
            return refused;
        }
        if (std::optional<TransferEnd> ended = take_ended()) {
            return ended;
        }
        set_rates();
        std::int64_t const next_ns = next_change_ns();
        if (next_ns > until_ns) {
            pass_until(until_ns);
            return std::nullopt;
        }
        if (next_ns == kForever) {
            return std::nullopt;
        }
        pass_until(next_ns);
    }
}

/// Starts what can start. One that cannot, because a fence of its failed, ends at once.
std::optional<TransferEnd> VirtualLanes::start_heads() {
    for (std::deque<Transfer>& queue : queues_) {
        if (queue.empty()) {
            continue;
        }
        auto const lane = static_cast<std::size_t>(queue.front().command.lane);
        FenceState const state = fences_.of(queue.front().command.after);
        if (active_[lane] || state == FenceState::pending || state == FenceState::unknown) {
            continue;
        }
        Transfer transfer = std::move(queue.front());
        queue.pop_front();
        if (state == FenceState::failed) {
            fences_.set(transfer.command.id, FenceState::failed);
            return TransferEnd{std::move(transfer), false, false, now_ns_, now_ns_};
        }
        start(std::move(transfer), active_[lane]);
    }
    return std::nullopt;
}

MachineLink const* VirtualLanes::link_for(Command const& command) const {
    if (command.lane == Lane::side) {
        return command.work == SideWork::decode ? &decoder_ : &encoder_;
    }
    return link_of(machine_, command.lane);
}

void VirtualLanes::start(Transfer transfer, std::optional<Active>& place) {
    Active active;
    active.link = link_for(transfer.command);
    double const draw =
        static_cast<double>(random_() >> 11) / static_cast<double>(std::uint64_t{1} << 53);
    double const factor = 1.0 + jitter_ * (2.0 * draw - 1.0);
    bool const takes_time = !std::isinf(active.link->rate_bytes_per_s);
    active.left_bytes =
        takes_time ? static_cast<double>(transfer.command.size_bytes) * factor : 0.0;
    active.start_ns = now_ns_;
    active.moves_from_ns = now_ns_ + active.link->latency_ns;
    active.transfer = std::move(transfer);
    place = std::move(active);
}

bool VirtualLanes::moves(Active const& active) const {
    return active.moves_from_ns <= now_ns_ && active.left_bytes > kNothingLeft;
}

/// Encoding and decoding is from one place to itself.
bool VirtualLanes::moves_device_bytes() const {
    return std::any_of(active_.begin(), active_.end(), [&](std::optional<Active> const& active) {
        return active && moves(*active) && active->link->from != active->link->to &&
               (active->link->from == Pool::device || active->link->to == Pool::device);
    });
}

void VirtualLanes::set_rates() {
    for (std::optional<Active>& active : active_) {
        if (!active) {
            continue;
        }
        bool const both_ways = std::any_of(active_.begin(), active_.end(), [&](auto const& other) {
            return other && moves(*other) && other->link->from == active->link->to &&
                   other->link->to == active->link->from;
        });
        active->rate_bytes_per_s =
            both_ways ? active->link->both_ways_rate_bytes_per_s : active->link->rate_bytes_per_s;
    }
    share_groups();
}

void VirtualLanes::share_groups() {
    for (ShareGroup const& group : machine_.groups) {
        double together = 0;
        for (std::optional<Active> const& active : active_) {
            if (active && moves(*active) && active->link->group == group.name) {
                together += active->rate_bytes_per_s;
            }
        }
        if (together <= group.rate_bytes_per_s) {
            continue;
        }
        for (std::optional<Active>& active : active_) {
            if (active && active->link->group == group.name) {
                active->rate_bytes_per_s *= group.rate_bytes_per_s / together;
            }
        }
    }
}

/// When a transfer ends or begins to move bytes; `kForever`: never.
std::int64_t VirtualLanes::next_change_ns() const {
    std::int64_t next_ns = kForever;
    for (std::optional<Active> const& active : active_) {
        if (!active) {
            continue;
        }
        if (active->moves_from_ns > now_ns_) {
            next_ns = std::min(next_ns, active->moves_from_ns);
            continue;
        }
        double const left_ns = active->left_bytes / active->rate_bytes_per_s * kNsPerSecond;
        std::int64_t const rounded_ns =
            left_ns > 1e18 ? kForever : static_cast<std::int64_t>(std::ceil(left_ns));
        next_ns = std::min(next_ns, now_ns_ + std::max<std::int64_t>(1, rounded_ns));
    }
    return next_ns;
}

void VirtualLanes::pass_until(std::int64_t at_ns) {
    if (at_ns == kForever) {
        return;
    }
    device_moves_ns_ += moves_device_bytes() ? at_ns - now_ns_ : 0;
    double const seconds = static_cast<double>(at_ns - now_ns_) / kNsPerSecond;
    for (std::optional<Active>& active : active_) {
        if (active && active->moves_from_ns <= now_ns_) {
            active->left_bytes -= active->rate_bytes_per_s * seconds;
        }
    }
    now_ns_ = at_ns;
}

std::optional<TransferEnd> VirtualLanes::take_ended() {
    for (std::optional<Active>& active : active_) {
        if (!active || active->moves_from_ns > now_ns_ || active->left_bytes > kNothingLeft) {
            continue;
        }
        bool const ok = !active->transfer.fails;
        fences_.set(active->transfer.command.id, ok ? FenceState::passed : FenceState::failed);
        TransferEnd end{std::move(active->transfer), ok, true, active->start_ns, now_ns_};
        active.reset();
        return end;
    }
    return std::nullopt;
}

}  // namespace spillway
