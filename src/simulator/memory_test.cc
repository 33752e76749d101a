// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The law of values with a code, as the simulated memory sees it: each test breaks one part of it,
// or keeps all.

#include "simulator/memory.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

constexpr std::int64_t kRaw = 1000;
constexpr std::int64_t kEncoded = 200;
ValueId const kValue{0};
BlockId const kBlock{0};

/// One value of 1000 bytes, 200 encoded. Commands have the ids in which a good reply gives them:
/// reserve 0, encode 1, store 2, drop 3; reserve 4, load 5, decode 6, bind 7.
class CodedMemory : public testing::Test {
  protected:
    CodedMemory() {
        memory_.allocate(kRaw);
        memory_.saved(kValue, kRaw, kEncoded);
        memory_.became_unshared(kValue);
    }
    static Command command(std::int64_t id, CommandKind kind, Lane lane, std::int64_t size_bytes) {
        Command made;
        made.id = CommandId{id};
        made.kind = kind;
        made.lane = lane;
        made.value = kValue;
        made.block = kBlock;
        made.size_bytes = size_bytes;
        if (id > 0) {
            made.after = {CommandId{id - 1}};
        }
        return made;
    }
    static Command away(Command made) {
        made.pool = Pool::nvme;
        return made;
    }
    static Command encode_command() {
        Command made = command(1, CommandKind::run, Lane::side, kRaw);
        made.work = SideWork::encode;
        return made;
    }
    static Command store_command() {
        return away(command(2, CommandKind::store, Lane::nvme_write, kEncoded));
    }
    static Command load_command() {
        return away(command(5, CommandKind::load, Lane::nvme_read, kEncoded));
    }
    static Command decode_command() {
        Command made = command(6, CommandKind::run, Lane::side, kRaw);
        made.work = SideWork::decode;
        return made;
    }
    static Command drop_command() { return command(3, CommandKind::drop, Lane::compute, kRaw); }
    static Command bind_command() { return command(7, CommandKind::bind, Lane::compute, 0); }

    void reserve(std::int64_t size_bytes = kEncoded) {
        memory_.reserve_away(away(command(0, CommandKind::reserve, Lane::nvme_write, size_bytes)));
    }
    void end(Command const& command, bool ok = true) {
        memory_.transfer_ended({{command, !ok}, ok, true, 0, 1});
    }
    void store() {
        reserve();
        memory_.encode_given(encode_command());
        memory_.store_given(store_command());
        end(encode_command());
        end(store_command());
        memory_.drop(drop_command());
    }
    void load() {
        memory_.reserve_device(command(4, CommandKind::reserve, Lane::nvme_read, kRaw));
        memory_.load_given(load_command(), fences_);
    }
    void expect_broken(std::string const& words) {
        ASSERT_FALSE(memory_.verdict().ok()) << "nothing was noticed";
        EXPECT_NE(memory_.verdict().error().what.find(words), std::string::npos)
            << memory_.verdict().error().what;
    }

    Fences fences_;
    VirtualMemory memory_{{.device_bytes = 10'000, .nvme_bytes = 5000}};
};

TEST_F(CodedMemory, there_and_back_keeps_the_law) {
    store();
    EXPECT_EQ(memory_.used_bytes(Pool::device), 0);
    EXPECT_EQ(memory_.used_bytes(Pool::nvme), kEncoded);
    load();
    memory_.decode_given(decode_command());
    end(load_command());
    end(decode_command());
    memory_.bind(bind_command(), kValue);
    (void)memory_.dropped(kValue);
    memory_.release(away(command(8, CommandKind::release, Lane::nvme_write, kEncoded)));
    memory_.check_empty();
    EXPECT_TRUE(memory_.verdict().ok()) << memory_.verdict().error().what;
}

TEST_F(CodedMemory, a_store_waits_for_its_encode) {
    reserve();
    memory_.encode_given(encode_command());
    Command early = store_command();
    early.after = {CommandId{0}};
    memory_.store_given(early);
    expect_broken("before its encode");
}

TEST_F(CodedMemory, a_store_that_ends_before_its_encode_is_noticed) {
    reserve();
    memory_.encode_given(encode_command());
    memory_.store_given(store_command());
    end(store_command());
    expect_broken("its code was not there");
}

TEST_F(CodedMemory, a_value_with_a_code_does_not_go_raw) {
    reserve(kRaw);
    memory_.store_given(away(command(2, CommandKind::store, Lane::nvme_write, kRaw)));
    expect_broken("not as the value is to leave");
}

TEST_F(CodedMemory, raw_bytes_need_a_room_of_their_size) {
    memory_.saved(ValueId{1}, kRaw);
    Command of_other = away(command(0, CommandKind::reserve, Lane::nvme_write, kEncoded));
    of_other.value = ValueId{1};
    memory_.reserve_away(of_other);
    Command stores = store_command();
    stores.value = ValueId{1};
    memory_.store_given(stores);
    expect_broken("not as the value is to leave");
}

TEST_F(CodedMemory, a_code_needs_a_room_of_its_size) {
    reserve(kEncoded + 1);
    memory_.encode_given(encode_command());
    expect_broken("no room of its size");
}

TEST_F(CodedMemory, what_could_not_be_encoded_is_not_encoded_again) {
    reserve();
    memory_.encode_given(encode_command());
    memory_.store_given(store_command());
    end(encode_command(), false);
    end(store_command(), false);
    memory_.release(away(command(3, CommandKind::release, Lane::nvme_write, kEncoded)));
    EXPECT_TRUE(memory_.verdict().ok());
    EXPECT_EQ(memory_.storable_bytes(kRaw - 1), -1) << "it takes its raw size now";
    reserve();
    memory_.encode_given(encode_command());
    expect_broken("nothing to encode");
}

TEST_F(CodedMemory, it_is_not_dropped_before_its_store_has_ended) {
    reserve();
    memory_.encode_given(encode_command());
    memory_.store_given(store_command());
    end(encode_command());
    memory_.drop(drop_command());
    expect_broken("its copy is not stored");
}

TEST_F(CodedMemory, it_is_not_bound_before_its_decode) {
    store();
    load();
    end(load_command());
    memory_.bind(bind_command(), kValue);
    expect_broken("its bytes are not loaded");
}

TEST_F(CodedMemory, a_decode_waits_for_its_load) {
    store();
    load();
    Command early = decode_command();
    early.after = {CommandId{4}};
    memory_.decode_given(early);
    expect_broken("before its load");
}

TEST_F(CodedMemory, its_target_outlives_its_decode) {
    store();
    load();
    memory_.decode_given(decode_command());
    end(load_command());
    memory_.release(command(7, CommandKind::release, Lane::compute, kRaw));
    expect_broken("its load is under way");
}

TEST_F(CodedMemory, its_room_outlives_its_decode) {
    store();
    load();
    memory_.decode_given(decode_command());
    end(load_command());
    (void)memory_.dropped(kValue);
    memory_.release(away(command(8, CommandKind::release, Lane::nvme_write, kEncoded)));
    expect_broken("it is used");
}

TEST_F(CodedMemory, what_left_raw_is_not_decoded) {
    memory_.saved(ValueId{1}, kRaw);
    Command of_other = away(command(0, CommandKind::reserve, Lane::nvme_write, kRaw));
    of_other.value = ValueId{1};
    of_other.block = BlockId{1};
    memory_.reserve_away(of_other);
    Command decodes = decode_command();
    decodes.value = ValueId{1};
    decodes.block = BlockId{1};
    memory_.decode_given(decodes);
    expect_broken("nothing to decode");
}

TEST_F(CodedMemory, runs_are_on_the_side_lane) {
    reserve();
    Command elsewhere = encode_command();
    elsewhere.lane = Lane::compute;
    memory_.encode_given(elsewhere);
    expect_broken("not on the side lane");
}

}  // namespace
}  // namespace spillway
