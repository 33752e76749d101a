// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How values leave: the encoding of each that the executor knows, whether it can be, and what a
// codec refused.
#pragma once

#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"
#include "executor/event.h"
#include "memory/device.h"
#include "mover/mover.h"
#include "session/backlog.h"
#include "session/saved_as.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <unordered_map>

namespace spillway {

/// Thread  any; its mutex is held for no call of another part
class Encodings {
  public:
    Encodings(Device const& device, Mover const& mover, NonFinite non_finite, std::uint64_t seed)
        : device_(device), mover_(mover), non_finite_(non_finite), seed_(seed) {}

    void begin_step(std::int64_t step);

    /// What was asked for a value of `size_bytes` that is saved now, with the seed of its codec.
    /// Without an encoding that would take no fewer bytes, does not fit the mover's staging, is not
    /// of all of the value or not one that the device takes.
    [[nodiscard]] SavedAs possible(SavedAs const& asked, ValueId value, std::int64_t size_bytes);

    /// The event for a save that is reported to the executor now.
    [[nodiscard]] Saved event_of(Backlog::Save save, Usage usage);
    /// Of a value that the executor knows; nothing: it goes as it is.
    [[nodiscard]] std::optional<SavedAs> of(ValueId value) const;
    /// What it takes away; 0: it goes as it is.
    [[nodiscard]] std::int64_t away_bytes_of(ValueId value) const;
    /// The value has ended.
    void forget(ValueId value);
    /// True: a lossy codec was to encode the value, which from now on goes as it is. An encode that
    /// is asked for later finds none, and is given up.
    [[nodiscard]] bool goes_raw(ValueId value);

    /// Its codec cannot hold the value. Under NonFinite::refuse a `need` of it fails from now on.
    void refused(ValueId value, Error const& error);
    [[nodiscard]] bool any_refused() const { return any_refused_.load(); }
    struct Refused {
        Error error;
        SavedAs as;
    };
    [[nodiscard]] std::optional<Refused> refusal_of(ValueId value) const;

  private:
    [[nodiscard]] std::uint64_t seed_of(ValueId value);

    Device const& device_;
    Mover const& mover_;
    NonFinite const non_finite_;
    std::uint64_t const seed_;
    std::atomic<bool> any_refused_ = false;  ///< ever

    mutable Mutex mutex_;
    std::int64_t step_ SPILLWAY_GUARDED_BY(mutex_) = 0;
    ValueId first_of_step_ SPILLWAY_GUARDED_BY(mutex_);  ///< the first that may be encoded
    std::unordered_map<ValueId, SavedAs> encodings_ SPILLWAY_GUARDED_BY(mutex_);
    /// Under NonFinite::refuse: why.
    std::unordered_map<ValueId, Error> refused_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
