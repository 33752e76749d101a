// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the loop does for values that leave encoded.

#include "base/assert.h"
#include "session/loop.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace spillway {

namespace {

std::uint64_t mixed_of(std::uint64_t seed, std::int64_t step, std::int64_t in_step) {
    std::uint64_t mixed = seed;
    for (std::int64_t const part : {step, in_step}) {
        mixed += 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(part);
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
        mixed ^= mixed >> 31;
    }
    return mixed;
}

}  // namespace

/// Equal for equal steps, whatever came before: values are numbered in the order of their saving.
std::uint64_t Loop::seed_of(ValueId value) {
    std::lock_guard const lock(mutex_);
    if (!first_of_step_.valid()) {
        first_of_step_ = value;
    }
    return mixed_of(options_.seed, step_, value.number - first_of_step_.number);
}

std::int64_t Loop::away_bytes(SavedAs const& as) {
    if (!as.encoding) {
        return 0;
    }
    Result<std::int64_t> const size_bytes = encoded_bytes(*as.encoding);
    return size_bytes.ok() ? *size_bytes : 0;
}

/// Without an encoding that is of no use, or that cannot be, or that is not of all of the value. Of
/// `lossless` only the most is known, which is a little more than the value's own bytes.
SavedAs Loop::possible(SavedAs const& asked, std::int64_t size_bytes) const {
    if (!asked.encoding) {
        return asked;
    }
    std::int64_t const away = away_bytes(asked);
    bool const is_fewer = away < size_bytes || asked.encoding->codec.kind == CodecKind::lossless;
    bool const is_possible = away > 0 && mover_->codes(asked.encoding->codec) &&
                             away <= mover_->most_coded_bytes() &&
                             device_->rounded(asked.encoding->raw_bytes()) == size_bytes;
    SavedAs as = asked;
    if (!is_fewer || !is_possible) {
        as.encoding.reset();
    }
    return as;
}

/// Called with the mutex held.
Saved Loop::save_event(Backlog::Save save, Usage usage) {
    if (save.as.encoding) {
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

void Loop::goes_raw(ValueId value) {
    {
        std::lock_guard const lock(mutex_);
        if (std::optional<bool> const was_lossy = backlog_.goes_raw(value)) {
            report_.raw_for_two_savers += *was_lossy ? 1 : 0;
            return;
        }
        auto const encoded = encodings_.find(value);
        if (encoded == encodings_.end() || !is_lossy(encoded->second.encoding->codec)) {
            return;
        }
        ++report_.raw_for_two_savers;
        encodings_.erase(encoded);  // an encode that is asked for later finds none, and is given up
        refused_.erase(value);
    }
    if (!all_on_device()) {
        about_to_write(value);
    }
}

void Loop::run(Command const& command) {
    switch (command.work) {
        case SideWork::encode:
            encode(command);
            return;
        case SideWork::decode:
            decode(command);
            return;
        case SideWork::none:
            break;
    }
    SPILLWAY_ASSERT(false, "a run has work");
}

void Loop::encode(Command const& command) {
    SavedAs as;
    {
        std::lock_guard const lock(mutex_);
        if (auto const at = encodings_.find(command.value); at != encodings_.end()) {
            as = at->second;
        }
    }
    HeldBytes source = driver_.bytes_of(command.value);
    if (!as.encoding || source.bytes.empty()) {
        fail(command, Error{Errc::cancelled, "nothing refers to the value any more", ""});
        return;
    }
    Moving move = moving(command, as.encoding->raw_bytes());
    {
        std::lock_guard const lock(mutex_);
        in_flight_.emplace(command.id, std::move(move));
        if (options_.keep_trace) {
            histories_.of(command.value).codec = as.encoding->codec;
        }
    }
    BlockCode const code{
        .encoding = *as.encoding, .seed = as.seed, .label = name_of(as.tensor_class)};
    mover_->encode(command.id, command.block, std::move(source), code, command.after);
}

void Loop::decode(Command const& command) {
    Moving move = moving(command, command.size_bytes);
    HeldBytes target = target_of(command);
    {
        std::lock_guard const lock(mutex_);
        in_flight_.emplace(command.id, std::move(move));
    }
    mover_->decode(command.id, command.block, std::move(target), command.after);
}

/// What of the mover's failed: the event for it. What was given up for another's failure is no
/// fault, nor is a value that its codec cannot hold. Called with the mutex held.
Failed Loop::failed(Completion const& ended, std::optional<Moving> const& moved) {
    Error error = ended.outcome.error();
    if (moved && moved->work == SideWork::encode && error.code == Errc::unsupported) {
        encode_refused(moved->value, error);
        error.code = Errc::cancelled;  // for the store that waits for it
    }
    failed_.emplace(ended.command, error);
    bool const is_a_fault = error.code != Errc::cancelled;
    return {
        ended.command, error.code == Errc::tier_full, is_a_fault ? error.message() : std::string()};
}

/// Called with the mutex held.
void Loop::encode_refused(ValueId value, Error const& error) {
    if (options_.keep_trace) {
        History& history = histories_.of(value);
        history.codec.reset();
        history.was_refused = true;
    }
    if (options_.non_finite != NonFinite::refuse) {
        return;
    }
    auto const at = encodings_.find(value);
    // What is no mask may be any numbers: that is no fault of the program's.
    if (at != encodings_.end() && at->second.encoding->codec.kind != CodecKind::mask) {
        refused_.emplace(value, error);
        any_refused_ = true;
    }
}

std::optional<Error> Loop::refusal_of(ValueId value) const {
    Error error;
    SavedAs as;
    {
        std::lock_guard const lock(mutex_);
        auto const refused = refused_.find(value);
        if (refused == refused_.end()) {
            return std::nullopt;
        }
        error = refused->second;
        as = encodings_.at(value);
    }
    return Error{
        error.code,
        to_text(as.encoding->codec) + " cannot give back " + driver_.describe(value) + " (" +
            std::string(name_of(as.tensor_class)) + "): " + error.message(),
        ""};
}

/// Called with the mutex held.
void Loop::add_codecs(Report& report) const {
    for (CodingCounters const& row : mover_->coding_counters()) {
        CodecReport& codec = report.codecs.emplace_back();
        codec.tensor_class = row.label;
        codec.codec = to_text(row.codec);
        codec.bits = row.elements > 0 ? 8.0 * static_cast<double>(row.encoded_bytes) /
                                            static_cast<double>(row.elements)
                                      : 0;
        codec.values = row.values;
        codec.raw_bytes = row.raw_bytes;
        codec.encoded_bytes = row.encoded_bytes;
        codec.encode_ns = row.encode_ns;
        codec.decoded_bytes = row.decoded_bytes;
        codec.decode_ns = row.decode_ns;
        codec.error_squares = row.sums.of_errors;
        codec.value_squares = row.sums.of_values;
        codec.went_raw = row.went_raw;
    }
    std::sort(report.codecs.begin(), report.codecs.end(), [](auto const& one, auto const& other) {
        return std::tie(one.tensor_class, one.codec) < std::tie(other.tensor_class, other.codec);
    });
}

}  // namespace spillway
