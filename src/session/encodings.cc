// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/encodings.h"

#include "base/random.h"

#include <utility>

namespace spillway {

namespace {

std::uint64_t mixed_of(std::uint64_t seed, std::int64_t step, std::int64_t in_step) {
    std::uint64_t const of_step = mixed(seed + static_cast<std::uint64_t>(step));
    return mixed(of_step + static_cast<std::uint64_t>(in_step));
}

std::int64_t away_bytes(SavedAs const& as) {
    if (!as.encoding) {
        return 0;
    }
    Result<std::int64_t> const size_bytes = encoded_bytes(*as.encoding);
    return size_bytes.ok() ? *size_bytes : 0;
}

}  // namespace

void Encodings::begin_step(std::int64_t step) {
    MutexLock const lock(mutex_);
    step_ = step;
    first_of_step_ = {};
}

/// Equal for equal steps, whatever came before: values are numbered in the order of their saving.
std::uint64_t Encodings::seed_of(ValueId value) {
    MutexLock const lock(mutex_);
    if (!first_of_step_.valid()) {
        first_of_step_ = value;
    }
    return mixed_of(seed_, step_, value.number - first_of_step_.number);
}

/// Of `lossless` only the most is known, which is a little more than the value's own bytes.
SavedAs Encodings::possible(SavedAs const& asked, ValueId value, std::int64_t size_bytes) {
    if (!asked.encoding) {
        return asked;
    }
    std::int64_t const away = away_bytes(asked);
    bool const is_fewer = away < size_bytes || asked.encoding->codec.kind == CodecKind::lossless;
    bool const is_possible = away > 0 && mover_.codes(asked.encoding->codec) &&
                             away <= mover_.most_coded_bytes() &&
                             device_.rounded(asked.encoding->raw_bytes()) == size_bytes;
    SavedAs as = asked;
    if (!is_fewer || !is_possible) {
        as.encoding.reset();
        return as;
    }
    as.seed = seed_of(value);
    return as;
}

Saved Encodings::event_of(Backlog::Save save, Usage usage) {
    if (save.as.encoding) {
        MutexLock const lock(mutex_);
        encodings_.emplace(save.value, save.as);
    }
    return Saved{
        save.value,
        save.size_bytes,
        std::move(save.slot),
        usage,
        away_bytes(save.as),
        save.as.advice};
}

std::optional<SavedAs> Encodings::of(ValueId value) const {
    MutexLock const lock(mutex_);
    auto const at = encodings_.find(value);
    return at == encodings_.end() ? std::nullopt : std::optional(at->second);
}

std::int64_t Encodings::away_bytes_of(ValueId value) const {
    std::optional<SavedAs> const as = of(value);
    return as ? away_bytes(*as) : 0;
}

void Encodings::forget(ValueId value) {
    MutexLock const lock(mutex_);
    encodings_.erase(value);
    refused_.erase(value);
}

bool Encodings::goes_raw(ValueId value) {
    MutexLock const lock(mutex_);
    auto const at = encodings_.find(value);
    if (at == encodings_.end() || !is_lossy(at->second.encoding->codec)) {
        return false;
    }
    encodings_.erase(at);
    refused_.erase(value);
    return true;
}

void Encodings::refused(ValueId value, Error const& error) {
    if (non_finite_ != NonFinite::refuse) {
        return;
    }
    MutexLock const lock(mutex_);
    auto const at = encodings_.find(value);
    // What is no mask may be any numbers: that is no fault of the program's.
    if (at != encodings_.end() && at->second.encoding->codec.kind != CodecKind::mask) {
        refused_.emplace(value, error);
        any_refused_ = true;
    }
}

std::optional<Encodings::Refused> Encodings::refusal_of(ValueId value) const {
    MutexLock const lock(mutex_);
    auto const refused = refused_.find(value);
    if (refused == refused_.end()) {
        return std::nullopt;
    }
    return Refused{refused->second, encodings_.at(value)};
}

}  // namespace spillway
