// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Finds for each save of a step the slot that it has in the step that a plan was made of, also
// where the two differ: a layer more or fewer, another branch, dropout on or off.
#pragma once

#include "base/phase.h"
#include "trace/slot.h"
#include "trace/tensor_class.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace spillway {

/// What a save is known by beside its maker and output: never a size or an address.
struct SaveMark {
    TensorClass saver = TensorClass::other;  ///< to whom it is saved; `other` may be any
    std::int16_t dtype = -1;                 ///< as the driver numbers types; -1: unknown
    std::int16_t rank = -1;                  ///< number of dimensions; -1: unknown

    bool operator==(SaveMark const&) const = default;
};

/// The saves of a step in their order, and where its passes and phases begin among them.
struct SaveSequence {
    struct Part {
        std::size_t first = 0;         ///< save that it begins with
        std::optional<Phase> phase{};  ///< that begins; none: a pass, whose slots count from 0
    };

    void add(Slot const& slot, SaveMark const& mark) { saves.emplace_back(slot, mark); }
    void begin_pass() { parts.push_back({saves.size(), std::nullopt}); }
    void begin_phase(Phase phase) { parts.push_back({saves.size(), phase}); }

    std::vector<std::pair<Slot, SaveMark>> saves;
    std::vector<Part> parts;
};

/// Note [Matching]
/// A save matches a slot of equal maker, output, dtype and rank whose savers do not differ. While
/// the step goes as the sequence did, that is one comparison. After a difference a few *readings*
/// of what came are followed at once: so far the step has skipped saves of the sequence, has some
/// that it lacks, or is back at an earlier place. Each has a score: equal saves add to it, jumps
/// (the farther, the more) and saves that the sequence lacks take from it. A save gets the slot
/// that the best reading gives it, or none. When one reading was the best for long, the others go.
///
/// What looks alike is told apart by its place alone: where one of several equal layers is missing,
/// the last of them seems to be.
///
/// Cost    one comparison and a store where nothing differs; else at most kReadings times kPlaces
///         places are looked at. Allocates nothing after construction
/// Thread  not thread-safe
class SlotCursor {
  public:
    explicit SlotCursor(SaveSequence sequence);

    /// A step begins: all slots are free again.
    void begin_step();
    /// A pass begins: the sequence's next one. Where it has no more, all slots are free again.
    void begin_pass();
    /// A phase begins: where the sequence has it next in the pass.
    void begin_phase(Phase phase);

    /// The slot of the next save of this step, which the driver counted as `counted`; nothing: it
    /// has none. No slot is given twice in a pass.
    [[nodiscard]] Slot const* match(Slot const& counted, SaveMark const& mark);

    /// Whether more than one reading is followed.
    [[nodiscard]] bool is_lost() const { return reading_count_ > 1; }

  private:
    static constexpr std::size_t kReadings = 16;  ///< that are followed at once
    static constexpr std::size_t kAhead = 4;      ///< places of a kind that each may jump to
    static constexpr std::size_t kBehind = 3;
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    /// One guess of where the step is.
    struct Reading {
        std::int32_t score = 0;     ///< relative to the best, which has 0
        std::size_t next = 0;       ///< place in the sequence that is expected
        std::size_t given = kNone;  ///< place of the save that came last; kNone: it has none
    };
    /// The best ones, best first, one for each place that is expected next.
    struct Readings {
        std::array<Reading, kReadings> all{};
        std::size_t count = 0;
        void add(Reading const& reading);
    };

    [[nodiscard]] bool is_at(std::size_t place, Slot const& counted, SaveMark const& mark) const;
    [[nodiscard]] std::size_t kind_of(Slot const& counted, SaveMark const& mark) const;
    void follow(Reading const& from, std::size_t kind, SaveMark const& mark, Readings& found) const;
    void keep(Readings const& found);
    [[nodiscard]] Slot const* give(std::size_t place);
    void go_to(std::size_t place);

    SaveSequence const sequence_;
    std::vector<std::size_t> order_;    ///< places by kind, then by place
    std::vector<std::size_t> kinds_;    ///< where each kind begins in `order_`, and its end
    std::vector<std::uint32_t> taken_;  ///< by place: the pass in which it was given
    std::uint32_t pass_ = 1;
    std::size_t part_ = 0;    ///< that comes next
    bool has_saved_ = false;  ///< since the step or the pass began
    std::array<Reading, kReadings> readings_{};
    std::size_t reading_count_ = 1;
    std::int32_t straight_ = 0;  ///< saves since the best reading was another or met no slot
};

}  // namespace spillway
