// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/faulty_tier.h"

#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace spillway {

namespace {

bool covers(Fault const& fault, std::int64_t number) {
    return number >= fault.first && number - fault.first < fault.count;
}

Fault const* find(std::vector<Fault> const& faults, Fault::Kind kind) {
    auto const found = std::find_if(faults.begin(), faults.end(), [kind](Fault const& fault) {
        return fault.kind == kind;
    });
    return found == faults.end() ? nullptr : &*found;
}

/// Alters the stored block, of `size_bytes`, as the faults of the operation specify.
Result<void> spoil(
    Tier& tier, Reservation const& room, std::int64_t size_bytes, std::vector<Fault> const& faults
) {
    for (Fault const& fault : faults) {
        std::int64_t const left = size_bytes - fault.at_byte;
        bool const flip = fault.kind == Fault::Kind::flip;
        if (left <= 0 || (!flip && fault.kind != Fault::Kind::cut)) {
            continue;
        }
        std::byte const mask = flip ? std::byte{1} << fault.at_bit : std::byte{0xff};
        Result<void> spoiled = tier.damage(room, fault.at_byte, flip ? 1 : left, mask);
        if (!spoiled.ok()) {
            return spoiled;
        }
    }
    return {};
}

}  // namespace

FaultyTier::FaultyTier(std::unique_ptr<Tier> wrapped, std::vector<Fault> script)
    : wrapped_(std::move(wrapped)), script_(std::move(script)) {}

FaultyTier::~FaultyTier() {
    let_go();
    {
        MutexLock const lock(guard_);
        stopping_ = true;
        changed_.notify_all();
        changed_.wait(guard_, [this]() SPILLWAY_REQUIRES(guard_) { return under_way_ == 0; });
    }
    if (delayer_.joinable()) {
        delayer_.join();
    }
}

void FaultyTier::add(Fault fault) {
    MutexLock const lock(guard_);
    script_.push_back(fault);
}

std::int64_t FaultyTier::held() const {
    MutexLock const lock(guard_);
    return std::ssize(held_);
}

void FaultyTier::set_delay_ms(std::int64_t delay_ms) {
    MutexLock const lock(guard_);
    delay_ms_ = delay_ms;
}

Result<std::int64_t> FaultyTier::take_entry(std::int64_t size_bytes) {
    {
        MutexLock const lock(guard_);
        if (is_full(reserves_++)) {
            return Error{
                Errc::tier_full,
                fmt::format("{} were asked for, 0 B are left (by script)", format_size(size_bytes)),
                name()};
        }
    }
    Result<Reservation> room = wrapped_->reserve(size_bytes);
    if (!room.ok()) {
        return room.error();
    }
    MutexLock const lock(guard_);
    rooms_.emplace(next_entry_, std::make_unique<Reservation>(std::move(room).value()));
    return next_entry_++;
}

void FaultyTier::give_entry_back(std::int64_t entry) noexcept {
    std::unique_ptr<Reservation> room;
    MutexLock const lock(guard_);
    for (Operation const& operation : held_) {
        SPILLWAY_ASSERT(
            operation.room != rooms_.at(entry).get(),
            "a Reservation must outlive the stores and loads that name it"
        );
    }
    room = std::move(rooms_.at(entry));
    rooms_.erase(entry);
}

Reservation const* FaultyTier::room_of(std::int64_t entry) const {
    MutexLock const lock(guard_);
    return rooms_.at(entry).get();
}

bool FaultyTier::is_full(std::int64_t reserve_number) const {
    return std::any_of(script_.begin(), script_.end(), [&](Fault const& fault) {
        return fault.kind == Fault::Kind::full && covers(fault, reserve_number);
    });
}

std::vector<Fault> FaultyTier::faults_at(Direction way, std::int64_t number) const {
    std::vector<Fault> found;
    for (Fault const& fault : script_) {
        if (fault.kind != Fault::Kind::full && fault.way == way && covers(fault, number)) {
            found.push_back(fault);
        }
    }
    return found;
}

void FaultyTier::store(Reservation const& room, std::span<std::byte const> from, TierDone done) {
    Operation operation;
    operation.room = room_of(room.entry());
    operation.from = from;
    operation.done = std::move(done);
    enter(std::move(operation));
}

void FaultyTier::load(Reservation const& room, std::span<std::byte> to, TierDone done) {
    Operation operation;
    operation.way = Direction::load;
    operation.room = room_of(room.entry());
    operation.to = to;
    operation.done = std::move(done);
    enter(std::move(operation));
}

void FaultyTier::enter(Operation operation) {
    operation.done = [this, done = std::move(operation.done)](Result<void> result) {
        done(std::move(result));
        MutexLock const lock(guard_);
        --under_way_;
        changed_.notify_all();
    };
    bool is_held = false;
    {
        MutexLock const lock(guard_);
        ++under_way_;
        std::int64_t const number = operations_[static_cast<std::size_t>(operation.way)]++;
        operation.faults = faults_at(operation.way, number);
        if (Fault const* const hold = find(operation.faults, Fault::Kind::hold)) {
            std::int64_t const now = operations_[0] + operations_[1];
            bool const until_released = hold->later_operations < 0;
            operation.start_at = until_released ? Fault::kForever : now + hold->later_operations;
            held_.push_back(std::move(operation));
            is_held = true;
        }
    }
    if (!is_held) {
        start(std::move(operation));
    }
    start_ripe();
}

void FaultyTier::start_ripe() {
    while (true) {
        Operation ripe;
        {
            MutexLock const lock(guard_);
            std::int64_t const now = operations_[0] + operations_[1];
            auto const found =
                std::find_if(held_.begin(), held_.end(), [now](Operation const& operation) {
                    return operation.start_at <= now;
                });
            if (found == held_.end()) {
                return;
            }
            ripe = std::move(*found);
            held_.erase(found);
        }
        start(std::move(ripe));
    }
}

void FaultyTier::let_go() {
    std::deque<Operation> ripe;
    {
        MutexLock const lock(guard_);
        ripe.swap(held_);
    }
    for (Operation& operation : ripe) {
        start(std::move(operation));
    }
}

void FaultyTier::start(Operation operation) {
    {
        MutexLock const lock(guard_);
        if (delay_ms_ > 0 && operation.due == std::chrono::steady_clock::time_point{}) {
            delay(std::move(operation));
            return;
        }
    }
    Fault const* const failure = find(operation.faults, Fault::Kind::fail);
    if (failure != nullptr) {
        bool const is_store = operation.way == Direction::store;
        operation.done(Error{
            failure->code,
            fmt::format(
                "a {} of {} bytes failed (by script)",
                is_store ? "store" : "load",
                operation.size_bytes()
            ),
            name()});
    } else if (operation.way == Direction::store) {
        start_store(std::move(operation));
    } else {
        start_load(std::move(operation));
    }
}

void FaultyTier::start_store(Operation operation) {
    std::span<std::byte const> const from = operation.from;
    Reservation const& room = *operation.room;
    wrapped_->store(room, from, [this, operation = std::move(operation)](Result<void> stored) {
        if (stored.ok()) {
            stored = spoil(*wrapped_, *operation.room, operation.size_bytes(), operation.faults);
        }
        operation.done(std::move(stored));
    });
}

void FaultyTier::start_load(Operation operation) {
    Result<void> const spoiled =
        spoil(*wrapped_, *operation.room, operation.size_bytes(), operation.faults);
    if (!spoiled.ok()) {
        operation.done(spoiled);
        return;
    }
    Reservation const& room = *operation.room;
    std::span<std::byte> const to = operation.to;
    wrapped_->load(room, to, [operation = std::move(operation)](Result<void> loaded) {
        if (Fault const* const garble = find(operation.faults, Fault::Kind::garble);
            garble != nullptr && garble->at_byte < operation.size_bytes()) {
            operation.to[static_cast<std::size_t>(garble->at_byte)] ^= std::byte{1}
                                                                       << garble->at_bit;
        }
        operation.done(std::move(loaded));
    });
}

void FaultyTier::delay(Operation operation) {
    operation.due = std::chrono::steady_clock::now() + std::chrono::milliseconds(delay_ms_);
    delayed_.push_back(std::move(operation));
    if (!delayer_.joinable()) {
        delayer_ = std::thread([this] { run_delayed(); });
    }
    changed_.notify_all();
}

void FaultyTier::run_delayed() {
    MutexLock const lock(guard_);
    while (true) {
        if (delayed_.empty()) {
            if (stopping_) {
                return;
            }
            changed_.wait(guard_);
        } else if (auto const due = delayed_.front().due;
                   !stopping_ && std::chrono::steady_clock::now() < due) {
            changed_.wait_until(guard_, due);
        } else {
            Operation operation = std::move(delayed_.front());
            delayed_.pop_front();
            MutexUnlock const unlocked(guard_);
            start(std::move(operation));
        }
    }
}

Result<void> FaultyTier::damage(
    Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
) {
    return wrapped_->damage(*room_of(room.entry()), first, count, mask);
}

}  // namespace spillway
