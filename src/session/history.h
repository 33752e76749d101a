// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Where values have been, for people: stored, dropped, brought back.
#pragma once

#include "base/ids.h"
#include "base/place.h"
#include "codec/codec.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace spillway {

struct History {
    Pool pool = Pool::host;       ///< where it was stored
    bool left = false;            ///< its device copy was dropped
    bool came_free = false;       ///< and gave its bytes back: nothing else held them
    std::int64_t returned = 0;    ///< how often it came back
    bool by_recipe = false;       ///< the last time it left, without a copy
    std::int64_t recomputed = 0;  ///< how often it was made again
    std::int64_t waited_ns = 0;   ///< that compute waited for its store and loads
    std::optional<Codec> codec;   ///< that its stored copy is encoded with; none: it went as it was
    bool was_refused = false;     ///< a codec could not give it back
};

/// Histories of the latest values; ids are in the order of saving. A session that is entered for a
/// whole training, and in which no step is ever reported, would otherwise keep ever more of them.
///
/// Thread  not thread-safe; its owner's mutex guards it
class Histories {
  public:
    explicit Histories(std::size_t most = 200'000) : most_(most) {}

    [[nodiscard]] History& of(ValueId value) {
        if (all_.size() == most_ && all_.count(value) == 0) {
            all_.erase(all_.begin());
        }
        return all_[value];
    }
    void clear() { all_.clear(); }
    [[nodiscard]] std::map<ValueId, History> const& all() const { return all_; }

  private:
    std::size_t const most_;
    std::map<ValueId, History> all_;
};

}  // namespace spillway
