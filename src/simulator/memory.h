// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The bytes of a simulated run: what is on the device, what each pool has set aside, and for every
// value and block what may be done with it now. Whatever breaks a promise is remembered.
#pragma once

#include "base/ids.h"
#include "base/place.h"
#include "base/result.h"
#include "executor/command.h"
#include "executor/executor_options.h"
#include "simulator/lanes.h"
#include "timeline/timeline.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

class VirtualMemory {
  public:
    /// `capacity_bytes`: the budgets; a device budget of 0 is no limit.
    explicit VirtualMemory(ExecutorOptions const& options)
        : limit_bytes_{options.device_bytes, options.host_bytes, options.nvme_bytes},
          nvme_value_bytes_(options.nvme_value_bytes) {}

    /// Where time stands, for the record of memory over time.
    void set_now(std::int64_t now_ns);

    // What the program does.
    [[nodiscard]] bool fits(std::int64_t size_bytes) const;
    /// Device bytes; above the limit is a broken promise.
    void allocate(std::int64_t size_bytes) { change(Pool::device, size_bytes); }
    void free(std::int64_t size_bytes) { change(Pool::device, -size_bytes); }
    /// The bytes were allocated before. `encoded_bytes`: what it takes away encoded; 0: goes raw.
    void saved(
        ValueId value,
        std::int64_t size_bytes,
        std::int64_t encoded_bytes = 0,
        bool may_leave = true
    );
    void became_unshared(ValueId value) { values_.at(value).unshared = true; }
    void use_begins(ValueId value);
    /// The program writes what it uses: a copy of it is none any more.
    void written(ValueId value);
    void use_ends(ValueId value) { values_.at(value).in_use = false; }
    /// False: it is kept for the sake of recipes, and `take_unpinned` has it later.
    [[nodiscard]] bool dropped(ValueId value);
    /// Values that were dropped before, and that no recipe needs any more.
    [[nodiscard]] std::vector<ValueId> take_unpinned() { return std::exchange(unpinned_, {}); }
    void has_recipe(ValueId value, std::vector<ValueId> const& sources) {
        values_.at(value).sources = sources;
    }

    // What commands do. Each is called once its fences have passed.
    void reserve_away(Command const& command);
    void reserve_device(Command const& command);
    /// There was no room. The executor will release it all the same.
    void reserve_refused(Command const& command);
    void store_given(Command const& command);
    void load_given(Command const& command, Fences const& fences);
    void encode_given(Command const& command);
    void decode_given(Command const& command);
    /// A store, load or run.
    void transfer_ended(TransferEnd const& end);
    void bind(Command const& command, ValueId needed);
    void drop(Command const& command);
    void drop_by_recipe(Command const& command);
    /// A run of a recipe that will come: what it needs must not leave before it has ended.
    void recompute_given(Command const& command);
    /// It is about to compute: what it needs has to be there.
    void recompute_begins(Command const& command);
    void recompute_ended(Command const& command, bool ok);
    [[nodiscard]] bool is_pinned(ValueId value) const { return values_.at(value).pins > 0; }
    void release(Command const& command);

    [[nodiscard]] bool is_held(ValueId value) const {
        return values_.at(value).place == Place::held;
    }
    [[nodiscard]] std::int64_t used_bytes(Pool pool) const { return used_bytes_[at(pool)]; }
    [[nodiscard]] std::int64_t peak_bytes(Pool pool) const { return peak_bytes_[at(pool)]; }
    /// Device bytes times the nanoseconds that they were there, all and those of values: over the
    /// time of a run it is their average.
    [[nodiscard]] double device_byte_ns() const { return device_byte_ns_; }
    [[nodiscard]] double held_byte_ns() const { return held_byte_ns_; }
    /// The device's highest since the last call.
    [[nodiscard]] std::int64_t take_recent_peak();
    /// Device bytes of values, returning ones included.
    [[nodiscard]] std::int64_t held_bytes() const { return held_bytes_; }
    /// Device bytes that waiting and dropping would free: unshared values whose copy is stored or
    /// under way, returning ones, and dropped ones that a copy still reads.
    [[nodiscard]] std::int64_t droppable_bytes() const;
    /// The largest free room of an away pool for one value.
    [[nodiscard]] std::int64_t away_room_bytes() const;
    /// The largest unshared value without a copy that fits into `room_bytes`; -1: none.
    [[nodiscard]] std::int64_t storable_bytes(std::int64_t room_bytes) const;

    /// Checked at the end of a run, when every value was dropped and all lanes are idle.
    void check_empty();

    [[nodiscard]] Result<void> const& verdict() const { return verdict_; }
    void broken(std::string const& what);
    /// Moves the record of memory over time out.
    [[nodiscard]] std::vector<MemoryStep> take_record() { return std::move(record_); }

  private:
    enum class Place : std::uint8_t { held, none, returning };
    struct SimValue {
        std::int64_t size_bytes = 0;
        std::int64_t encoded_bytes = 0;  ///< 0: it has no code
        bool encode_failed = false;      ///< it goes raw from then on
        bool written = false;            ///< what failed to be encoded may be no more
        Place place = Place::held;
        BlockId block;
        int stores = 0;  ///< in flight, with their encodes, needing its device bytes
        int loads = 0;
        int decodes = 0;
        CommandId load;        ///< the last that was given
        bool loaded = false;   ///< its bytes are as they were, or as its code gives them back
        bool refused = false;  ///< its last reserve found no room
        bool unshared = false;
        bool in_use = false;
        bool alive = true;
        bool may_leave = true;
        std::vector<ValueId> sources;  ///< of its recipe
        bool by_recipe = false;
        int pins = 0;  ///< values that are gone and are made from it
        bool drop_waits = false;
        int holds = 0;  ///< runs that need it

        [[nodiscard]] bool may_go_raw() const { return encoded_bytes == 0 || encode_failed; }
        [[nodiscard]] bool may_be_encoded() const {
            return encoded_bytes > 0 && (!encode_failed || written);
        }
        [[nodiscard]] std::int64_t away_bytes() const {
            return may_go_raw() ? size_bytes : encoded_bytes;
        }
    };
    enum class BlockState : std::uint8_t { refused, reserved, storing, stored, failed };
    struct Block {
        Pool pool = Pool::host;
        std::int64_t size_bytes = 0;
        ValueId value;
        BlockState state = BlockState::reserved;
        int users = 0;
        bool stale = false;
        CommandId encode{};       ///< what makes its bytes; not valid: they are raw
        bool is_encoded = false;  ///< that has ended well
    };

    static std::string text_of(Command const& command);
    static constexpr std::size_t at(Pool pool) { return static_cast<std::size_t>(pool); }
    void change(Pool pool, std::int64_t by_bytes);
    void store_ended(TransferEnd const& end, SimValue& value, Block& block);
    void load_ended(TransferEnd const& end, SimValue& value, Block const& block);
    void run_ended(TransferEnd const& end, SimValue& value, Block& block);
    void copy_ended(SimValue& value, Command const& command);
    void free_device(SimValue& value);
    void unpin_sources(SimValue& value);
    void end(SimValue& value);
    void release_block(Command const& command);
    void release_device(Command const& command);
    [[nodiscard]] SimValue* value_of(Command const& command);
    [[nodiscard]] Block* block_of(Command const& command);
    void check_lane(Command const& command, Lane host_lane, Lane nvme_lane);

    std::array<std::int64_t, kPools> limit_bytes_;
    std::int64_t nvme_value_bytes_;
    std::array<std::int64_t, kPools> used_bytes_{};
    std::array<std::int64_t, kPools> peak_bytes_{};
    std::int64_t recent_peak_bytes_ = 0;
    std::int64_t held_bytes_ = 0;
    std::int64_t now_ns_ = 0;
    double device_byte_ns_ = 0;  // a second with 10 GB is beyond 64 bits
    double held_byte_ns_ = 0;
    std::unordered_map<ValueId, SimValue> values_;
    std::unordered_map<BlockId, Block> blocks_;
    std::vector<MemoryStep> record_;
    std::vector<ValueId> unpinned_;
    Result<void> verdict_;
};

}  // namespace spillway
