// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// For tests: a loop on real memory and real tiers, with a driver that holds plain blocks instead of
// tensors.
#pragma once

#include "base/units.h"
#include "memory/cpu_device.h"
#include "session/loop.h"
#include "tier/faulty_tier.h"
#include "tier/memory_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

/// Values are blocks of the device, each filled with a pattern of its own.
class Blocks final : public Driver {
  public:
    explicit Blocks(Device& device) : device_(device) {}
    ~Blocks() override {
        for (auto const& [value, block] : blocks_) {
            device_.free(block);
        }
    }

    void put(ValueId value, void* block) { blocks_[value] = block; }
    void* at(ValueId value) { return blocks_.at(value); }
    bool has(ValueId value) const { return blocks_.count(value) != 0; }
    void end(ValueId value) {
        auto const at = blocks_.find(value);
        if (at != blocks_.end()) {
            free_when_unheld(at->second);
            blocks_.erase(at);
        }
    }

    HeldBytes bytes_of(ValueId value) override {
        auto const at = blocks_.find(value);
        if (at == blocks_.end()) {
            return {};
        }
        void* const block = at->second;
        ++holds_[block];
        std::shared_ptr<void const> hold(block, [this](void const* b) { unhold(b); });
        auto const count = static_cast<std::size_t>(device_.size_of(block));
        return {{static_cast<std::byte*>(block), count}, std::move(hold)};
    }
    StreamId stream_of(ValueId) override { return {0}; }
    void drop(ValueId value) override { end(value); }
    void bind(ValueId value, void* memory) override { blocks_[value] = memory; }
    std::vector<ValueId> newly_unshared(std::size_t) override {
        return std::exchange(unshared, {});
    }
    std::optional<ValueRecipe> recipe_of(ValueId value) override {
        auto const found = recipes.find(value);
        return found == recipes.end() ? std::nullopt : std::optional(found->second);
    }
    std::vector<ValueId> found_recipes() override { return std::exchange(late_recipes, {}); }
    bool keep_recipe(ValueId) override { return has_sources; }
    Result<std::int64_t> recompute(ValueId value) override { return make(value); }
    std::string describe(ValueId value) const override {
        return "test value " + std::to_string(value.number);
    }

    std::vector<ValueId> unshared;  ///< what newly_unshared will return
    std::map<ValueId, ValueRecipe> recipes;
    std::vector<ValueId> late_recipes;  ///< that are found now
    bool has_sources = true;
    std::function<Result<std::int64_t>(ValueId)> make;  ///< `recompute`

  private:
    void free_when_unheld(void* block) {
        if (holds_[block] == 0) {
            device_.free(block);
            holds_.erase(block);
        } else {
            orphans_.insert(block);
        }
    }
    void unhold(void const* held) {
        void* const block = const_cast<void*>(held);
        if (--holds_[block] == 0 && orphans_.erase(block) != 0) {
            device_.free(block);
            holds_.erase(block);
        }
    }

    Device& device_;
    std::map<ValueId, void*> blocks_;
    std::map<void*, int> holds_;
    std::set<void*> orphans_;
};

struct Rig {
    static constexpr std::int64_t kCodedBytes = 4_MiB;

    explicit Rig(
        std::int64_t limit_bytes,
        std::vector<Fault> faults = {},
        std::string log = {},
        std::int64_t away_bytes = 64_MiB,
        ChooserKind chooser = ChooserKind::online,
        Pool away = Pool::nvme,
        std::string timeline_file = {},
        NonFinite non_finite = NonFinite::keep,
        std::int64_t coded_bytes = kCodedBytes,
        std::optional<Plan> plan = std::nullopt,
        Planner planner = nullptr,
        std::string policy = {}
    ) {
        device = CpuDevice::open({.limit_bytes = limit_bytes}).value();
        auto faulty = std::make_unique<FaultyTier>(
            std::make_unique<MemoryTier>(away_bytes), std::move(faults)
        );
        tier = faulty.get();
        std::array<std::unique_ptr<Tier>, 2> places;  // host, NVMe
        places[away == Pool::host ? 0 : 1] = std::move(faulty);
        auto mover = std::make_unique<Mover>(
            device,
            std::move(places[0]),
            std::move(places[1]),
            MoverOptions{
                .coded = map_host_memory(coded_bytes).value(), .measure = !timeline_file.empty()}
        );
        driver = std::make_unique<Blocks>(*device);
        LoopOptions options;
        options.executor = {.chooser = chooser, .device_bytes = limit_bytes};
        (away == Pool::host ? options.executor.host_bytes : options.executor.nvme_bytes) =
            away_bytes;
        options.record_events = std::move(log);
        options.timeline_file = std::move(timeline_file);
        options.keep_timeline = true;
        options.non_finite = non_finite;
        options.plan = std::move(plan);
        options.planner = std::move(planner);
        options.policy = std::move(policy);
        loop = std::make_unique<Loop>(options, device, std::move(mover), *driver);
        EXPECT_TRUE(loop->open_log().ok());
        EXPECT_TRUE(loop->open_timeline().ok());
    }

    /// As a capped allocator does: makes room until it fits or nothing is left.
    Result<void*> allocate(std::int64_t size_bytes) {
        for (;;) {
            if (void* const block = device->try_allocate(size_bytes, {0})) {
                return block;
            }
            Result<void> const room = loop->make_room(device->rounded(size_bytes));
            if (!room.ok()) {
                return room.error();
            }
        }
    }

    Result<ValueId> save(std::int64_t size_bytes) {
        return save(size_bytes, Slot{"test", 0, occurrence});
    }
    Result<ValueId> save(std::int64_t size_bytes, Slot const& slot, SaveMark const& mark = {}) {
        Result<void*> const block = allocate(size_bytes);
        if (!block.ok()) {
            return block.error();
        }
        ValueId const value{next++};
        bytes[value] = static_cast<unsigned char>(value.number % 251);
        std::memset(*block, bytes[value], static_cast<std::size_t>(size_bytes));
        sizes[value] = size_bytes;
        driver->put(value, *block);
        loop->saved(value, device->size_of(*block), slot, {}, mark);
        driver->unshared.push_back(value);  // the next operator lets go of it
        return value;
    }

    /// Values that may come back a little different.
    Result<ValueId> save_floats(std::vector<float> const& values, SavedAs const& as) {
        std::size_t const size = values.size() * sizeof(float);
        Result<void*> const block = allocate(static_cast<std::int64_t>(size));
        if (!block.ok()) {
            return block.error();
        }
        ValueId const value{next++};
        std::memcpy(*block, values.data(), size);
        driver->put(value, *block);
        loop->saved(value, device->size_of(*block), Slot{"test", 0, 0}, as);
        driver->unshared.push_back(value);
        return value;
    }
    std::vector<float> floats_of(ValueId value, std::size_t count) const {
        std::vector<float> values(count);
        std::memcpy(values.data(), driver->at(value), count * sizeof(float));
        return values;
    }

    /// Room is made for each of them.
    std::vector<ValueId> save_all(int count, std::int64_t size_bytes) {
        std::vector<ValueId> values;
        for (int i = 0; i < count; ++i) {
            values.push_back(save(size_bytes).value());
        }
        return values;
    }

    /// The program, which has the value, writes it.
    void write(ValueId value) {
        EXPECT_TRUE(loop->need(value, Loop::Use::write).ok());
        bytes[value] = 251;
        std::memset(driver->at(value), bytes[value], static_cast<std::size_t>(sizes.at(value)));
    }

    /// What backward reads is what was written last.
    void expect_intact(ValueId value) {
        ASSERT_TRUE(driver->has(value));
        auto const* const first = static_cast<unsigned char const*>(driver->at(value));
        auto const count = static_cast<std::size_t>(sizes.at(value));
        bool const all = std::all_of(first, first + count, [&](unsigned char byte) {
            return byte == bytes.at(value);
        });
        EXPECT_TRUE(all) << "value " << value.number;
    }

    void done_with(ValueId value) {
        driver->end(value);
        loop->dropped(value);
    }

    std::shared_ptr<CpuDevice> device;
    FaultyTier* tier = nullptr;
    std::unique_ptr<Blocks> driver;
    std::unique_ptr<Loop> loop;  ///< destroyed before the driver
    std::map<ValueId, std::int64_t> sizes;
    std::map<ValueId, unsigned char> bytes;  ///< what each is filled with
    std::int64_t next = 0;
    std::int32_t occurrence = 0;  ///< of the slot of what `save` saves
};

}  // namespace spillway
