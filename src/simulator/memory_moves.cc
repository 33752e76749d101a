// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What takes time in a simulated run's memory: stores, loads and runs, given and ended.

#include "simulator/memory.h"

#include <algorithm>

namespace spillway {

namespace {

bool waits_for(Command const& command, CommandId fence) {
    return std::find(command.after.begin(), command.after.end(), fence) != command.after.end();
}

}  // namespace

void VirtualMemory::check_lane(Command const& command, Lane host_lane, Lane nvme_lane) {
    if (command.lane != (command.pool == Pool::host ? host_lane : nvme_lane)) {
        broken(text_of(command) + ": on lane " + std::string(name_of(command.lane)));
    }
}

void VirtualMemory::encode_given(Command const& command) {
    SimValue* const value = value_of(command);
    auto const found = blocks_.find(command.block);
    if (value == nullptr || found == blocks_.end() || command.lane != Lane::side) {
        broken(text_of(command) + ": no such value or block, or not on the side lane");
        return;
    }
    Block& block = found->second;
    bool const fits = command.size_bytes == value->size_bytes && value->may_be_encoded() &&
                      block.size_bytes == value->encoded_bytes;
    if (value->place != Place::held || !value->alive || block.state != BlockState::reserved ||
        block.value != command.value || block.encode.valid() || !fits) {
        broken(text_of(command) + ": nothing to encode, or no room of its size for the code");
        return;
    }
    block.encode = command.id;
    ++block.users;
    ++value->stores;
}

void VirtualMemory::store_given(Command const& command) {
    check_lane(command, Lane::copy_out, Lane::nvme_write);
    SimValue* const value = value_of(command);
    Block* const block = block_of(command);
    if (value == nullptr || block == nullptr) {
        return;
    }
    if (value->place != Place::held || !value->alive || block->state != BlockState::reserved ||
        block->value != command.value) {
        broken(text_of(command) + ": the value is not on the device or its block is not reserved");
        return;
    }
    bool const is_raw = !block->encode.valid();
    if (is_raw ? !value->may_go_raw() || block->size_bytes != value->size_bytes
               : !waits_for(command, block->encode)) {
        broken(text_of(command) + ": not as the value is to leave, or before its encode");
        return;
    }
    block->state = BlockState::storing;
    ++block->users;
    ++value->stores;
    value->block = command.block;
}

void VirtualMemory::load_given(Command const& command, Fences const& fences) {
    check_lane(command, Lane::copy_in, Lane::nvme_read);
    SimValue* const value = value_of(command);
    Block* const block = block_of(command);
    if (value == nullptr || block == nullptr) {
        return;
    }
    bool const comes =
        block->state == BlockState::stored ||
        (block->state == BlockState::storing && fences.of(command.after) != FenceState::passed);
    if (value->place != Place::returning || value->loads != 0 || value->decodes != 0 || !comes ||
        block->value != command.value) {
        broken(text_of(command) + ": no room reserved for it, or its block is not stored");
        return;
    }
    ++block->users;
    ++value->loads;
    value->load = command.id;
}

void VirtualMemory::decode_given(Command const& command) {
    SimValue* const value = value_of(command);
    auto const found = blocks_.find(command.block);
    if (value == nullptr || found == blocks_.end() || command.lane != Lane::side) {
        broken(text_of(command) + ": no such value or block, or not on the side lane");
        return;
    }
    Block& block = found->second;
    if (value->place != Place::returning || block.value != command.value || !block.encode.valid() ||
        value->decodes != 0 || command.size_bytes != value->size_bytes ||
        !waits_for(command, value->load)) {
        broken(text_of(command) + ": nothing to decode, or before its load");
        return;
    }
    ++block.users;
    ++value->decodes;
}

void VirtualMemory::transfer_ended(TransferEnd const& end) {
    Command const& command = end.transfer.command;
    SimValue& value = values_.at(command.value);
    Block& block = blocks_.at(command.block);
    --block.users;
    switch (command.kind) {
        case CommandKind::store:
            store_ended(end, value, block);
            return;
        case CommandKind::load:
            load_ended(end, value, block);
            return;
        default:
            run_ended(end, value, block);
            return;
    }
}

void VirtualMemory::store_ended(TransferEnd const& end, SimValue& value, Block& block) {
    Command const& command = end.transfer.command;
    block.state = end.ok ? BlockState::stored : BlockState::failed;
    if (end.ok && block.encode.valid() && !block.is_encoded) {
        broken(text_of(command) + ": its code was not there");
    }
    copy_ended(value, command);
}

/// A store or encode: the value's device bytes are needed by one less.
void VirtualMemory::copy_ended(SimValue& value, Command const& command) {
    --value.stores;
    if (value.place != Place::held) {
        broken(text_of(command) + ": the value was gone meanwhile");
    } else if (!value.alive && value.stores == 0) {
        free_device(value);
    }
}

void VirtualMemory::load_ended(TransferEnd const& end, SimValue& value, Block const& block) {
    --value.loads;
    value.loaded = end.ok && !block.encode.valid();
    if (end.ok && block.state != BlockState::stored) {
        broken(text_of(end.transfer.command) + ": loaded unstored bytes");
    }
}

void VirtualMemory::run_ended(TransferEnd const& end, SimValue& value, Block& block) {
    Command const& command = end.transfer.command;
    if (command.work == SideWork::decode) {
        --value.decodes;
        value.loaded = end.ok;
        return;
    }
    block.is_encoded = end.ok;
    if (!end.ok && end.started) {
        value.encode_failed = true;
    }
    copy_ended(value, command);
}

}  // namespace spillway
