// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/backlog.h"

#include <algorithm>
#include <utility>

namespace spillway {

namespace {

constexpr std::int64_t kSlack = 64;  ///< dropped saves that may stay, beside as many as live

bool comes_before(Backlog::Save const& save, ValueId value) {
    return save.value < value;
}

}  // namespace

void Backlog::add(ValueId value, std::int64_t size_bytes, Slot slot, SavedAs const& as) {
    Save save{value, size_bytes, std::move(slot), as};
    // At the end, but for threads that save at the same time.
    auto const place = saves_.empty() || saves_.back().value < value
                           ? saves_.end()
                           : std::lower_bound(saves_.begin(), saves_.end(), value, comes_before);
    saves_.insert(place, std::move(save));
    ++live_;
    size_bytes_ += size_bytes;
}

std::optional<bool> Backlog::goes_raw(ValueId value) {
    auto const at = std::lower_bound(saves_.begin(), saves_.end(), value, comes_before);
    if (at == saves_.end() || at->value != value || !at->as.encoding) {
        return std::nullopt;
    }
    bool const was_lossy = is_lossy(at->as.encoding->codec);
    if (was_lossy) {
        at->as.encoding.reset();
    }
    return was_lossy;
}

bool Backlog::drop(ValueId value) {
    auto const at = std::lower_bound(saves_.begin(), saves_.end(), value, comes_before);
    if (at == saves_.end() || at->value != value || at->dropped) {
        return false;
    }
    at->dropped = true;
    --live_;
    size_bytes_ -= at->size_bytes;
    if (live_ == 0) {
        saves_.clear();
    }
    while (!saves_.empty() && saves_.back().dropped) {
        saves_.pop_back();
    }
    if (std::ssize(saves_) > 2 * live_ + kSlack) {
        std::erase_if(saves_, [](Save const& save) { return save.dropped; });
    }
    return true;
}

std::vector<Backlog::Save> Backlog::take() {
    std::vector<Save> left = std::exchange(saves_, {});
    std::erase_if(left, [](Save const& save) { return save.dropped; });
    live_ = 0;
    size_bytes_ = 0;
    return left;
}

}  // namespace spillway
