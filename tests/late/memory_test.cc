// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Blocks: what they hold outside their lives, what they count for, and who harms them.

#include "late/test_support.h"

#include <cmath>
#include <vector>

namespace late {
namespace {

class MemoryTest : public LateTest {
  protected:
    static std::vector<unsigned char> look(void const* bytes, std::size_t count) {
        auto const* const at = static_cast<unsigned char const*>(bytes);
        return {at, at + count};
    }
};

TEST_F(MemoryTest, a_new_tensor_is_not_a_number) {
    for (at::ScalarType const type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
        EXPECT_TRUE(at::empty({5}, on_late().dtype(type)).isnan().all().item<bool>());
    }
    EXPECT_EQ(at::empty({}, on_late().dtype(at::kLong)).item<std::int64_t>(), -1);
}

TEST_F(MemoryTest, a_freed_block_is_poisoned_when_its_stream_gets_there) {
    at::Tensor value = at::ones({4}, on_late());
    void const* const bytes = value.data_ptr();
    main_stream().synchronize();
    value = at::Tensor();
    EXPECT_NE(look(bytes, 16), std::vector<unsigned char>(16, 0xFF));
    main_stream().synchronize();
    EXPECT_EQ(look(bytes, 16), std::vector<unsigned char>(16, 0xFF));
    EXPECT_TRUE(damage().empty());
}

TEST_F(MemoryTest, a_recorded_block_is_poisoned_when_the_last_stream_gets_there) {
    c10::Stream const side = side_stream();
    at::Tensor value = at::ones({4}, on_late());
    void const* const bytes = value.data_ptr();
    value.record_stream(side);
    value = at::Tensor();
    main_stream().synchronize();
    side.synchronize();
    EXPECT_EQ(look(bytes, 16), std::vector<unsigned char>(16, 0xFF));
    EXPECT_EQ(stats().devices[0].used_bytes, 0);
}

TEST_F(MemoryTest, a_use_after_the_free_is_reported_even_in_order) {
    at::Tensor const host = pinned(4, 0);
    at::Tensor value = at::ones({4}, on_late());
    void const* const bytes = value.data_ptr();
    value = at::Tensor();
    copy_async(host.data_ptr(), bytes, 16, main_stream());
    ASSERT_EQ(reports().size(), 1U);
    EXPECT_EQ(reports()[0].kind, Report::Kind::use_after_free);
    EXPECT_EQ(reports()[0].first.op, "free");
    EXPECT_EQ(reports()[0].second.op, "copy_d2h");
    main_stream().synchronize();
    EXPECT_TRUE(host.isnan().all().item<bool>());
}

TEST_F(MemoryTest, writes_outside_a_block_are_found) {
    auto* const block = static_cast<unsigned char*>(allocate_bytes(100, main_stream()));
    wait_idle();
    EXPECT_TRUE(damage().empty());
    block[100] = 1;
    block[-3] = 1;
    std::vector<Damage> const found = damage();
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].kind, Damage::Kind::before_begin);
    EXPECT_EQ(found[0].offset_bytes, -3);
    EXPECT_EQ(found[1].kind, Damage::Kind::past_end);
    EXPECT_EQ(found[1].offset_bytes, 100);
    EXPECT_EQ(found[1].size_bytes, 100);
    free_bytes(block);
}

TEST_F(MemoryTest, a_late_write_into_freed_memory_is_found_under_some_seeds) {
    int found = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        reset(seed);
        c10::Stream const load = side_stream();
        at::Tensor const host = pinned(4, 2);
        void* const block = allocate_bytes(16, main_stream());
        order(main_stream(), load);
        copy_async(block, host.data_ptr(), 16, load);
        free_bytes(block);  // on main, which has not waited for the load
        std::vector<Damage> const harm = damage();
        found += harm.empty() ? 0 : 1;
        EXPECT_TRUE(harm.empty() || harm[0].kind == Damage::Kind::after_free);
        EXPECT_EQ(reports().size(), 1U);
    }
    EXPECT_GT(found, 0);
    EXPECT_LT(found, 20);
}

TEST_F(MemoryTest, damage_is_found_when_a_block_leaves_the_quarantine) {
    configure({.quarantine_bytes = 0});
    auto* const block = static_cast<unsigned char*>(allocate_bytes(100, main_stream()));
    free_bytes(block);
    wait_idle();
    block[7] = 1;
    free_bytes(allocate_bytes(100, main_stream()));
    ASSERT_EQ(damage().size(), 1U);
    EXPECT_EQ(damage()[0].offset_bytes, 7);
}

TEST_F(MemoryTest, blocks_are_counted) {
    set_limit(0, 0);
    at::Tensor first = at::empty({1000}, on_late());
    at::Tensor const second = at::empty({1000}, on_late());
    at::Tensor const host = pinned(10, 0);
    EXPECT_EQ(stats().devices[0].used_bytes, 2 * rounded(4000));
    EXPECT_EQ(stats().devices[0].live_blocks, 2);
    EXPECT_EQ(stats().pinned.live_blocks, 1);
    first = at::Tensor();
    EXPECT_EQ(stats().devices[0].used_bytes, rounded(4000));
    EXPECT_EQ(stats().devices[0].peak_bytes, 2 * rounded(4000));
    EXPECT_EQ(stats().devices[1].peak_bytes, 0);
    reset_peak(0);
    EXPECT_EQ(stats().devices[0].peak_bytes, rounded(4000));
}

TEST_F(MemoryTest, an_allocation_above_the_limit_can_be_caught_and_the_next_one_works) {
    std::int64_t const limit_bytes = 2 * rounded(4000) + rounded(4);
    set_limit(0, limit_bytes);
    at::Tensor first = at::ones({1000}, on_late());
    at::Tensor const second = at::ones({1000}, on_late());
    EXPECT_THROW((void)at::empty({1000}, on_late()), c10::OutOfMemoryError);
    EXPECT_THROW((void)(second + 1), c10::OutOfMemoryError);
    EXPECT_EQ(at::empty({1000}, on_late(1)).numel(), 1000);
    first = at::Tensor();
    EXPECT_EQ((second + 1).sum().item<float>(), 2000.0F);
    EXPECT_EQ(stats().devices[0].peak_bytes, limit_bytes);
}

TEST_F(MemoryTest, at_the_limit_an_allocation_waits_for_blocks_that_other_streams_hold) {
    set_limit(0, rounded(4000));
    c10::Stream const side = side_stream();
    at::Tensor value = at::empty({1000}, on_late());
    value.record_stream(side);
    value = at::Tensor();
    EXPECT_EQ(stats().devices[0].used_bytes, rounded(4000));
    value = at::empty({1000}, on_late());
    EXPECT_EQ(stats().devices[0].used_bytes, rounded(4000));
    EXPECT_EQ(stats().devices[0].live_blocks, 1);
}

TEST_F(MemoryTest, a_storage_is_resized_in_stream_order) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        reset(seed);
        at::Tensor const value = at::ones({4}, on_late()) * 3;
        value.storage().unsafeGetStorageImpl()->set_resizable(true);
        value.resize_({1000});
        EXPECT_TRUE(at::equal(value.narrow(0, 0, 4).cpu(), at::full({4}, 3.0)));
        EXPECT_EQ(all_reports(), "");
    }
}

TEST_F(MemoryTest, pinned_memory_is_known_as_such) {
    EXPECT_TRUE(pinned(3, 1).is_pinned());
    EXPECT_FALSE(at::ones({3}).is_pinned());
    EXPECT_TRUE(at::ones({3}).pin_memory().is_pinned());
}

TEST_F(MemoryTest, pinned_memory_freed_under_a_copy_is_reported) {
    at::Tensor const value = at::ones({4}, on_late());
    void* const host = allocate_pinned(16);
    copy_async(host, value.data_ptr(), 16, main_stream());
    free_bytes(host);
    ASSERT_EQ(reports().size(), 1U);
    EXPECT_EQ(reports()[0].second, (Party{"free", "host", true}));
    wait_idle();
}

}  // namespace
}  // namespace late
