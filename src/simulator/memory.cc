// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "simulator/memory.h"

#include <utility>

namespace spillway {

void VirtualMemory::broken(std::string const& what) {
    if (verdict_.ok()) {
        verdict_ = Error{Errc::broken_promise, what, ""};
    }
}

void VirtualMemory::set_now(std::int64_t now_ns) {
    auto const passed_ns = static_cast<double>(now_ns - now_ns_);
    device_byte_ns_ += static_cast<double>(used_bytes_[at(Pool::device)]) * passed_ns;
    held_byte_ns_ += static_cast<double>(held_bytes_) * passed_ns;
    now_ns_ = now_ns;
}

bool VirtualMemory::fits(std::int64_t size_bytes) const {
    std::int64_t const limit = limit_bytes_[at(Pool::device)];
    return limit == 0 || used_bytes_[at(Pool::device)] + size_bytes <= limit;
}

void VirtualMemory::change(Pool pool, std::int64_t by_bytes) {
    std::int64_t& used = used_bytes_[at(pool)];
    used += by_bytes;
    std::int64_t const limit = limit_bytes_[at(pool)];
    bool const bounded = pool != Pool::device || limit != 0;
    if (used < 0 || (bounded && by_bytes > 0 && used > limit)) {
        broken(
            std::string(name_of(pool)) + " holds " + std::to_string(used) + " of " +
            std::to_string(limit) + " bytes"
        );
    }
    peak_bytes_[at(pool)] = std::max(peak_bytes_[at(pool)], used);
    if (pool == Pool::device) {
        recent_peak_bytes_ = std::max(recent_peak_bytes_, used);
    }
    for (auto step = record_.rbegin(); step != record_.rend() && step->at_ns == now_ns_; ++step) {
        if (step->pool == pool) {
            step->used_bytes = used;
            return;
        }
    }
    record_.push_back({pool, now_ns_, used});
}

std::int64_t VirtualMemory::take_recent_peak() {
    return std::exchange(recent_peak_bytes_, used_bytes_[at(Pool::device)]);
}

void VirtualMemory::saved(
    ValueId value, std::int64_t size_bytes, std::int64_t encoded_bytes, bool may_leave
) {
    SimValue entry;
    entry.size_bytes = size_bytes;
    entry.encoded_bytes = encoded_bytes;
    entry.may_leave = may_leave;
    values_.emplace(value, entry);
    held_bytes_ += size_bytes;
}

void VirtualMemory::use_begins(ValueId value) {
    SimValue& entry = values_.at(value);
    entry.in_use = true;
    entry.unshared = false;
}

void VirtualMemory::written(ValueId value) {
    values_.at(value).written = true;
    if (auto const block = blocks_.find(values_.at(value).block); block != blocks_.end()) {
        block->second.stale = true;
    }
}

bool VirtualMemory::dropped(ValueId value) {
    SimValue& entry = values_.at(value);
    entry.drop_waits = entry.pins > 0;
    if (!entry.drop_waits) {
        end(entry);
    }
    return !entry.drop_waits;
}

void VirtualMemory::end(SimValue& value) {
    value.alive = false;
    if (std::exchange(value.by_recipe, false)) {
        unpin_sources(value);
    }
    if (value.place == Place::held && value.stores == 0) {
        free_device(value);
    }
}

void VirtualMemory::unpin_sources(SimValue& value) {
    for (ValueId const id : value.sources) {
        SimValue& source = values_.at(id);
        if (--source.pins == 0 && std::exchange(source.drop_waits, false)) {
            end(source);
            unpinned_.push_back(id);
        }
    }
}

void VirtualMemory::free_device(SimValue& value) {
    value.place = Place::none;
    held_bytes_ -= value.size_bytes;
    change(Pool::device, -value.size_bytes);
}

std::string VirtualMemory::text_of(Command const& command) {
    std::string text(
        command.work == SideWork::none ? name_of(command.kind) : name_of(command.work)
    );
    text += " " + std::to_string(command.id.number);
    if (command.value.valid()) {
        text += " of value " + std::to_string(command.value.number);
    }
    if (command.block.valid()) {
        text += " at block " + std::to_string(command.block.number);
    }
    return text;
}

VirtualMemory::SimValue* VirtualMemory::value_of(Command const& command) {
    auto const found = values_.find(command.value);
    if (found == values_.end()) {
        broken(text_of(command) + ": no such value");
        return nullptr;
    }
    return &found->second;
}

VirtualMemory::Block* VirtualMemory::block_of(Command const& command) {
    auto const found = blocks_.find(command.block);
    if (found == blocks_.end() || found->second.pool != command.pool ||
        found->second.size_bytes != command.size_bytes) {
        broken(text_of(command) + ": no such block of that pool and size");
        return nullptr;
    }
    return &found->second;
}

void VirtualMemory::reserve_away(Command const& command) {
    SimValue const* const value = value_of(command);
    if (value == nullptr || blocks_.contains(command.block) || command.size_bytes < 0) {
        broken(text_of(command) + ": not a new block of a value");
        return;
    }
    if (command.pool == Pool::nvme && nvme_value_bytes_ > 0 &&
        command.size_bytes > nvme_value_bytes_) {
        broken(text_of(command) + ": the value is too large for NVMe");
    }
    blocks_.emplace(command.block, Block{command.pool, command.size_bytes, command.value});
    change(command.pool, command.size_bytes);
}

void VirtualMemory::reserve_device(Command const& command) {
    SimValue* const value = value_of(command);
    if (value == nullptr) {
        return;
    }
    if (value->place != Place::none || !value->alive || command.size_bytes != value->size_bytes) {
        broken(text_of(command) + ": the value is not away");
        return;
    }
    value->place = Place::returning;
    value->loaded = false;
    held_bytes_ += value->size_bytes;
    change(Pool::device, value->size_bytes);
}

void VirtualMemory::reserve_refused(Command const& command) {
    SimValue* const value = value_of(command);
    if (command.pool != Pool::device) {
        Block const block{command.pool, command.size_bytes, command.value, BlockState::refused};
        blocks_.emplace(command.block, block);
    } else if (value != nullptr) {
        value->refused = true;
    }
}

void VirtualMemory::bind(Command const& command, ValueId needed) {
    SimValue* const value = value_of(command);
    if (value == nullptr) {
        return;
    }
    bool const is_needed = needed.valid() && (command.value == needed || value->pins > 0);
    if (value->place != Place::returning || !value->loaded || !is_needed) {
        broken(text_of(command) + ": its bytes are not loaded, or nobody needs it now");
        return;
    }
    value->place = Place::held;
}

void VirtualMemory::drop(Command const& command) {
    SimValue* const value = value_of(command);
    if (value == nullptr) {
        return;
    }
    auto const block = blocks_.find(value->block);
    bool const stored =
        block != blocks_.end() && block->second.state == BlockState::stored && !block->second.stale;
    if (value->place != Place::held || !value->alive || !stored) {
        broken(text_of(command) + ": not on the device, or its copy is not stored");
        return;
    }
    if (!value->unshared || value->in_use || value->holds > 0) {
        broken(text_of(command) + ": the program still holds it, or a run needs it");
        return;
    }
    free_device(*value);
}

void VirtualMemory::drop_by_recipe(Command const& command) {
    SimValue* const value = value_of(command);
    if (value == nullptr) {
        return;
    }
    bool const is_free = value->place == Place::held && value->alive && value->unshared &&
                         !value->in_use && value->holds == 0 && value->stores == 0 &&
                         value->may_leave;
    bool const is_sound =
        std::all_of(value->sources.begin(), value->sources.end(), [&](ValueId id) {
            auto const source = values_.find(id);
            return source != values_.end() && source->second.alive &&
                   (source->second.place != Place::held ||
                    (source->second.unshared && !source->second.in_use)) &&
                   source->second.may_go_raw();
        });
    if (!is_free || !is_sound) {
        broken(text_of(command) + ": the program holds it or what it is made of");
        return;
    }
    for (ValueId const id : value->sources) {
        ++values_.at(id).pins;
    }
    value->by_recipe = true;
    free_device(*value);
}

void VirtualMemory::recompute_given(Command const& command) {
    SimValue* const value = value_of(command);
    if (value == nullptr) {
        return;
    }
    if (!value->by_recipe || command.lane != Lane::compute || value->holds > 1 ||
        command.size_bytes != value->size_bytes) {
        broken(text_of(command) + ": it is not gone by its recipe, or is being made");
        return;
    }
    ++value->holds;
    for (ValueId const id : value->sources) {
        ++values_.at(id).holds;
    }
}

void VirtualMemory::recompute_begins(Command const& command) {
    for (ValueId const id : values_.at(command.value).sources) {
        if (values_.at(id).place != Place::held) {
            broken(text_of(command) + ": value " + std::to_string(id.number) + " is not there");
        }
    }
}

/// The bytes of what it made were allocated before.
void VirtualMemory::recompute_ended(Command const& command, bool ok) {
    SimValue& value = values_.at(command.value);
    --value.holds;
    for (ValueId const id : value.sources) {
        --values_.at(id).holds;
    }
    if (ok) {
        value.by_recipe = false;
        value.place = Place::held;
        held_bytes_ += value.size_bytes;
        unpin_sources(value);
    }
}

void VirtualMemory::release(Command const& command) {
    if (command.pool == Pool::device) {
        release_device(command);
    } else {
        release_block(command);
    }
}

void VirtualMemory::release_device(Command const& command) {
    SimValue* const value = value_of(command);
    if (value == nullptr || std::exchange(value->refused, false)) {
        return;
    }
    if (value->place != Place::returning || value->loads != 0 || value->decodes != 0) {
        broken(text_of(command) + ": nothing is reserved for it, or its load is under way");
        return;
    }
    free_device(*value);
}

void VirtualMemory::release_block(Command const& command) {
    Block* const block = block_of(command);
    if (block == nullptr) {
        return;
    }
    bool const failed = block->state == BlockState::failed || block->state == BlockState::refused;
    bool const over = !values_.at(block->value).alive || failed || block->stale;
    if (!over || block->users != 0) {
        broken(text_of(command) + ": it is used, or its value lives");
        return;
    }
    if (block->state != BlockState::refused) {
        change(block->pool, -block->size_bytes);
    }
    blocks_.erase(command.block);
}

std::int64_t VirtualMemory::droppable_bytes() const {
    std::int64_t sum = 0;
    for (auto const& [id, value] : values_) {
        auto const block = blocks_.find(value.block);
        bool const copied = block != blocks_.end() && block->second.state != BlockState::failed &&
                            !block->second.stale;
        bool const unshared = value.place == Place::held && value.alive && value.unshared &&
                              copied && value.holds == 0;
        bool const leaving = !value.alive && value.place != Place::none;
        bool const returning = value.place == Place::returning && value.holds == 0;
        sum += unshared || leaving || returning ? value.size_bytes : 0;
    }
    return sum;
}

std::int64_t VirtualMemory::away_room_bytes() const {
    std::int64_t room = 0;
    for (Pool const pool : kAwayPools) {
        std::int64_t const left = limit_bytes_[at(pool)] - used_bytes_[at(pool)];
        bool const is_cut = pool == Pool::nvme && nvme_value_bytes_ > 0;
        room = std::max(room, is_cut ? std::min(left, nvme_value_bytes_) : left);
    }
    return room;
}

std::int64_t VirtualMemory::storable_bytes(std::int64_t room_bytes) const {
    std::int64_t largest = -1;
    for (auto const& [id, value] : values_) {
        bool const has_copy = blocks_.contains(value.block);
        if (value.place == Place::held && value.alive && value.unshared && value.may_leave &&
            !has_copy && value.holds == 0 && value.away_bytes() <= room_bytes) {
            largest = std::max(largest, value.size_bytes);
        }
    }
    return largest;
}

void VirtualMemory::check_empty() {
    for (std::size_t pool = 0; pool < kPools; ++pool) {
        if (used_bytes_[pool] != 0) {
            broken(
                std::to_string(used_bytes_[pool]) + " bytes are left in pool " +
                std::string(name_of(static_cast<Pool>(pool))) + " after every value was dropped"
            );
        }
    }
}

}  // namespace spillway
