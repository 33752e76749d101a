// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/slot_cursor.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace spillway {

namespace {

// Scores, in twentieths of what an equal save adds. Choices, tried on the programs of the test.
constexpr std::int32_t kEqual = 20;
constexpr std::int32_t kEqualAndOnly = 50;  ///< of a kind that the sequence has once
constexpr std::int32_t kJump = 20;
constexpr std::int32_t kJumpOfEach = 3;  ///< of the first four places that are jumped over
constexpr std::int32_t kJumpTwiceAsFar = 20;
constexpr std::int32_t kLacks = 20;
constexpr std::int32_t kLacksMore = 6;     ///< after another that the sequence lacks
constexpr std::int32_t kLacksTheKind = 1;  ///< no reading has it
constexpr std::int32_t kHopeless = 240;    ///< behind the best
/// The best reading is the right one when so many saves in a row agreed; fewer where it leads.
constexpr std::int32_t kSureAfter = 32;
constexpr std::int32_t kLeadsAfter = 4;
constexpr std::int32_t kLead = 40;

/// Of saves that may be each other: the saver, which may be unknown, is no part of it.
auto kind_words(std::pair<Slot, SaveMark> const& save) {
    auto const& [slot, mark] = save;
    return std::tuple<std::string const&, std::int32_t, std::int16_t, std::int16_t>(
        slot.producer, slot.output, mark.dtype, mark.rank
    );
}

bool may_be_one(TensorClass one, TensorClass another) {
    return one == another || one == TensorClass::other || another == TensorClass::other;
}

/// Linear up to four places, then by the logarithm: half a model is not much farther than a layer.
std::int32_t cost_of_jump(std::size_t from, std::size_t to) {
    auto const far = static_cast<std::uint64_t>(from < to ? to - from : from - to);
    if (far == 0) {
        return 0;
    }
    if (far <= 4) {
        return kJump + kJumpOfEach * static_cast<std::int32_t>(far);
    }
    int const doublings = static_cast<int>(std::bit_width(far)) - 1;
    std::uint64_t const power = std::uint64_t{1} << static_cast<unsigned>(doublings);
    auto const part = static_cast<std::int32_t>(kJumpTwiceAsFar * (far - power) / power);
    return kJump + 4 * kJumpOfEach + (doublings - 2) * kJumpTwiceAsFar + part;
}

}  // namespace

SlotCursor::SlotCursor(SaveSequence sequence)
    : sequence_(std::move(sequence)),
      order_(sequence_.saves.size()),
      taken_(sequence_.saves.size(), 0) {
    auto const& saves = sequence_.saves;
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t one, std::size_t another) {
        return kind_words(saves[one]) < kind_words(saves[another]);
    });
    for (std::size_t i = 0; i < order_.size(); ++i) {
        if (i == 0 || kind_words(saves[order_[i - 1]]) != kind_words(saves[order_[i]])) {
            kinds_.push_back(i);
        }
    }
    kinds_.push_back(order_.size());
}

/// One reading alone, of which nothing is known yet.
void SlotCursor::go_to(std::size_t place) {
    readings_[0] = {0, place, kNone};
    reading_count_ = 1;
    straight_ = 0;
}

void SlotCursor::begin_step() {
    ++pass_;
    part_ = 0;
    has_saved_ = false;
    go_to(0);
}

void SlotCursor::begin_pass() {
    if (!has_saved_) {
        return;
    }
    for (std::size_t i = part_; i < sequence_.parts.size(); ++i) {
        if (!sequence_.parts[i].phase) {
            part_ = i + 1;
            has_saved_ = false;
            go_to(sequence_.parts[i].first);
            return;
        }
    }
    begin_step();
}

void SlotCursor::begin_phase(Phase phase) {
    for (std::size_t i = part_; i < sequence_.parts.size() && sequence_.parts[i].phase; ++i) {
        if (*sequence_.parts[i].phase == phase) {
            part_ = i + 1;
            go_to(sequence_.parts[i].first);
            return;
        }
    }
}

bool SlotCursor::is_at(std::size_t place, Slot const& counted, SaveMark const& mark) const {
    if (place >= sequence_.saves.size()) {
        return false;
    }
    auto const& [slot, known] = sequence_.saves[place];
    return slot.output == counted.output && known.dtype == mark.dtype && known.rank == mark.rank &&
           may_be_one(known.saver, mark.saver) && slot.producer == counted.producer;
}

/// kNone: the sequence lacks it.
std::size_t SlotCursor::kind_of(Slot const& counted, SaveMark const& mark) const {
    using Kind = std::tuple<std::string const&, std::int32_t, std::int16_t, std::int16_t>;
    Kind const wanted(counted.producer, counted.output, mark.dtype, mark.rank);
    auto const of = [&](std::size_t first) { return kind_words(sequence_.saves[order_[first]]); };
    auto const end = kinds_.end() - 1;
    auto const at = std::lower_bound(
        kinds_.begin(), end, wanted, [&](std::size_t first, Kind const& k) { return of(first) < k; }
    );
    return at == end || of(*at) != wanted ? kNone : static_cast<std::size_t>(at - kinds_.begin());
}

Slot const* SlotCursor::give(std::size_t place) {
    if (place == kNone || taken_[place] == pass_) {
        return nullptr;
    }
    taken_[place] = pass_;
    return &sequence_.saves[place].first;
}

Slot const* SlotCursor::match(Slot const& counted, SaveMark const& mark) {
    has_saved_ = true;
    Reading& only = readings_[0];
    if (reading_count_ == 1 && is_at(only.next, counted, mark)) {
        only.given = only.next++;
        return give(only.given);
    }
    std::size_t const of = kind_of(counted, mark);
    Readings found;
    for (std::size_t i = 0; i < reading_count_; ++i) {
        follow(readings_[i], of, mark, found);
    }
    keep(found);
    return give(readings_[0].given);
}

/// What the save may be by that reading: one that the sequence lacks, or one of its kind near by.
void SlotCursor::follow(
    Reading const& from, std::size_t kind, SaveMark const& mark, Readings& found
) const {
    bool const is_more = from.given == kNone;
    std::int32_t const lacks = kind == kNone ? kLacksTheKind : is_more ? kLacksMore : kLacks;
    found.add({from.score - lacks, from.next, kNone});
    if (kind == kNone) {
        return;
    }
    auto const begin = order_.begin() + static_cast<std::ptrdiff_t>(kinds_[kind]);
    auto const end = order_.begin() + static_cast<std::ptrdiff_t>(kinds_[kind + 1]);
    auto const here = std::lower_bound(begin, end, from.next);
    auto const first = here - std::min<std::ptrdiff_t>(here - begin, kBehind);
    auto const last = here + std::min<std::ptrdiff_t>(end - here, kAhead);
    std::int32_t const adds = end - begin == 1 ? kEqualAndOnly : kEqual;
    for (auto place = first; place != last; ++place) {
        if (may_be_one(sequence_.saves[*place].second.saver, mark.saver)) {
            std::int32_t const cost = cost_of_jump(from.next, *place);
            found.add({from.score + adds - cost, *place + 1, *place});
        }
    }
}

/// The best of what was found, unless one is the right one for certain.
void SlotCursor::keep(Readings const& found) {
    Reading const& best = found.all[0];
    bool const goes_on = best.given != kNone && best.given == readings_[0].next;
    straight_ = goes_on ? straight_ + 1 : 0;
    bool const leads = found.count > 1 && best.score - found.all[1].score >= kLead;
    bool const is_sure = straight_ >= (leads ? kLeadsAfter : kSureAfter);
    std::size_t const most = is_sure ? 1 : found.count;
    reading_count_ = 0;
    for (std::size_t i = 0; i < most; ++i) {
        Reading reading = found.all[i];
        reading.score -= best.score;
        if (reading.score > -kHopeless) {
            readings_[reading_count_++] = reading;
        }
    }
}

/// In its place by score, of equal ones the nearer to the sequence's begin.
void SlotCursor::Readings::add(Reading const& reading) {
    if (count == all.size() && all.back().score >= reading.score) {
        return;
    }
    auto const end = all.begin() + static_cast<std::ptrdiff_t>(count);
    auto same = std::find_if(all.begin(), end, [&](Reading const& known) {
        return known.next == reading.next;
    });
    if (same != end && same->score >= reading.score) {
        return;
    }
    if (same == end) {
        count = std::min(count + 1, all.size());
        same = all.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    }
    auto const is_better = [&](Reading const& known) {
        return known.score < reading.score ||
               (known.score == reading.score && known.next > reading.next);
    };
    auto const at = std::find_if(all.begin(), same, is_better);
    std::move_backward(at, same, same + 1);
    *at = reading;
}

}  // namespace spillway
