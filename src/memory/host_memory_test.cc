// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/host_memory.h"

#include "base/units.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

TEST(HostMemoryTest, a_mapping_is_whole_pages_writable_and_pageable) {
    Result<HostMemory> const memory = map_host_memory(3 * 4096 + 17);
    ASSERT_TRUE(memory.ok());
    ASSERT_EQ(memory->bytes().size(), 3U * 4096);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->bytes().data()) % 4096, 0U);
    EXPECT_EQ(memory->requested_bytes(), 3 * 4096 + 17);
    EXPECT_EQ(memory->locked_bytes(), 0);
    memory->bytes().front() = std::byte{1};
    memory->bytes().back() = std::byte{2};
}

TEST(HostMemoryTest, less_than_a_page_and_more_than_addresses_are_refused) {
    Result<HostMemory> const little = map_host_memory(4095);
    ASSERT_FALSE(little.ok());
    EXPECT_EQ(little.error().code, Errc::bad_argument);
    Result<HostMemory> const much = map_host_memory(std::int64_t{1} << 60);
    ASSERT_FALSE(much.ok());
    EXPECT_EQ(much.error().code, Errc::out_of_memory);
}

TEST(HostMemoryTest, it_is_unlocked_and_then_released_once_by_the_last_owner) {
    std::byte bytes[8];
    std::string log;
    {
        HostMemory last;
        {
            HostMemory first(bytes, 7, [&](std::span<std::byte> at) {
                log += at.data() == bytes && at.size() == 8 ? "release " : "wrong bytes ";
            });
            first.set_locked(8, [&](std::span<std::byte>) { log += "unlock "; });
            last = std::move(first);
            EXPECT_EQ(first.bytes().size(), 0U);  // NOLINT: what is left of it
        }
        EXPECT_EQ(log, "");
        EXPECT_EQ(last.requested_bytes(), 7);
        EXPECT_EQ(last.locked_bytes(), 8);
        last.reset();
        EXPECT_EQ(last.locked_bytes(), 0);
    }
    EXPECT_EQ(log, "unlock release ");
}

TEST(HostMemoryTest, populated_pages_are_resident_and_zero) {
    Result<HostMemory> const memory = map_host_memory(std::int64_t{192} << 20);
    ASSERT_TRUE(memory.ok());
    std::span<std::byte> const bytes = memory->bytes();
    std::vector<unsigned char> resident(bytes.size() / 4096);
    auto const count = [&] {
        EXPECT_EQ(::mincore(bytes.data(), bytes.size(), resident.data()), 0);
        return static_cast<std::size_t>(
            std::count_if(resident.begin(), resident.end(), [](auto page) { return page % 2 == 1; })
        );
    };
    ASSERT_EQ(count(), 0U);
    if (::madvise(bytes.data(), 4096, MADV_POPULATE_WRITE) != 0) {
        GTEST_SKIP() << "this Linux populates nothing on request (before 5.14)";
    }
    populate(bytes);
    EXPECT_EQ(count(), resident.size());
    EXPECT_EQ(bytes[bytes.size() / 2], std::byte{0});
}

TEST(HostMemoryTest, a_forked_child_does_not_see_it) {
    Result<HostMemory> const memory = map_host_memory(4096);
    ASSERT_TRUE(memory.ok());
    memory->bytes()[0] = std::byte{1};
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    pid_t const child = ::fork();
    if (child == 0) {  // write() reads the memory, and fails where there is none
        ::_exit(::write(ends[1], memory->bytes().data(), 1) < 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ::close(ends[0]);
    ::close(ends[1]);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// A made-up root folder.
class HostLimitsTest : public testing::Test {
  protected:
    HostLimitsTest() {
        std::string name = testing::TempDir() + "spillway-root-XXXXXX";
        root_ = ::mkdtemp(name.data());
        put("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n");
        put("proc/self/limits",
            "Max locked memory         65536                67108864   bytes\n");
    }
    ~HostLimitsTest() override { std::filesystem::remove_all(root_); }

    void put(std::string const& path, std::string const& text) const {
        std::filesystem::path const file = std::filesystem::path(root_) / path;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }

    std::string root_;
};

TEST_F(HostLimitsTest, without_cgroups_the_machine_is_the_limit) {
    HostLimits expected;
    expected.machine_bytes = 8_GiB;
    expected.available_bytes = 4_GiB;
    expected.memlock_bytes = 65536;
    EXPECT_EQ(read_host_limits(root_), expected);
}

TEST_F(HostLimitsTest, what_is_not_there_is_no_limit) {
    EXPECT_EQ(read_host_limits(root_ + "/nowhere"), HostLimits());
    put("proc/self/limits", "Max locked memory         unlimited            unlimited    bytes\n");
    EXPECT_EQ(read_host_limits(root_).memlock_bytes, HostLimits::kUnlimited);
}

TEST_F(HostLimitsTest, the_lower_of_machine_and_cgroup_binds) {
    HostLimits limits;
    EXPECT_EQ(limits.most_bytes(), HostLimits::kUnlimited);
    EXPECT_EQ(limits.left_bytes(), HostLimits::kUnlimited);
    limits.machine_bytes = 8_GiB;
    limits.available_bytes = 4_GiB;
    EXPECT_EQ(limits.most_bytes(), 8_GiB);
    EXPECT_EQ(limits.left_bytes(), 4_GiB);
    limits.cgroup_limit_bytes = 6_GiB;
    limits.cgroup_used_bytes = 5_GiB;
    EXPECT_EQ(limits.most_bytes(), 6_GiB);
    EXPECT_EQ(limits.left_bytes(), 1_GiB);
    limits.cgroup_used_bytes = 7_GiB;
    EXPECT_EQ(limits.left_bytes(), 0);
}

TEST_F(HostLimitsTest, a_limit_on_locked_memory_is_named_where_it_is_passed) {
    HostLimits limits;
    EXPECT_EQ(memlock_advice(1_GiB, limits), "");
    limits.memlock_bytes = 8_MiB;
    EXPECT_EQ(memlock_advice(8_MiB, limits), "");
    EXPECT_EQ(
        memlock_advice(1_GiB, limits),
        "RLIMIT_MEMLOCK, which some drivers heed, allows 8.0 MiB of 1.0 GiB: try a higher "
        "`ulimit -l`"
    );
}

TEST_F(HostLimitsTest, of_v2_cgroups_the_one_with_the_least_room_counts) {
    put("proc/self/cgroup", "0::/slice/job/step\n");
    put("sys/fs/cgroup/slice/memory.max", "6442450944\n");
    put("sys/fs/cgroup/slice/memory.current", "5368709120\n");
    put("sys/fs/cgroup/slice/job/memory.max", "2147483648\n");
    put("sys/fs/cgroup/slice/job/memory.current", "0\n");
    put("sys/fs/cgroup/slice/job/step/memory.max", "max\n");
    HostLimits const limits = read_host_limits(root_);
    EXPECT_EQ(limits.cgroup_limit_bytes, 6_GiB);
    EXPECT_EQ(limits.cgroup_used_bytes, 5_GiB);
    EXPECT_EQ(limits.cgroup, root_ + "/sys/fs/cgroup/slice/memory.max");
}

TEST_F(HostLimitsTest, the_file_cache_of_a_cgroup_is_not_counted_as_used) {
    put("proc/self/cgroup", "0::/job\n");
    put("sys/fs/cgroup/job/memory.max", "4294967296\n");
    put("sys/fs/cgroup/job/memory.current", "4294967296\n");
    put("sys/fs/cgroup/job/memory.stat",
        "anon 5\ninactive_file 2147483648\nactive_file 1073741824\n");
    EXPECT_EQ(read_host_limits(root_).cgroup_used_bytes, 1_GiB);
}

TEST_F(HostLimitsTest, v1_beside_v2_is_read_and_its_endless_limit_is_none) {
    put("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3221225472\n");
    put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1073741824\n");
    put("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 7\ntotal_inactive_file 1073741824\n");
    HostLimits const limits = read_host_limits(root_);
    EXPECT_EQ(limits.cgroup_limit_bytes, 3_GiB);
    EXPECT_EQ(limits.cgroup_used_bytes, 0);
}

TEST_F(HostLimitsTest, in_a_container_the_limit_at_the_top_is_found) {
    put("sys/fs/cgroup/memory.max", "1073741824\n");
    for (char const* line : {"0::/docker/0123abcd\n", "0::/../../elsewhere\n", "0::/\n"}) {
        put("proc/self/cgroup", line);
        EXPECT_EQ(read_host_limits(root_).cgroup_limit_bytes, 1_GiB) << line;
    }
}

TEST(HostBudgetTest, this_machine_can_give_a_page_and_not_an_exbibyte) {
    HostLimits const limits = read_host_limits();
    EXPECT_GT(limits.machine_bytes, 0);
    EXPECT_GT(limits.available_bytes, 0);
    EXPECT_TRUE(check_host_budget(4096, limits).ok());
    EXPECT_FALSE(check_host_budget(std::int64_t{1} << 60, limits).ok());
}

TEST(HostBudgetTest, the_error_names_what_was_asked_for_and_whose_limit_it_passes) {
    HostLimits const limits = {
        .machine_bytes = 8_GiB,
        .available_bytes = 3_GiB,
        .cgroup_limit_bytes = 4_GiB,
        .cgroup_used_bytes = 2_GiB,
        .cgroup = "/job/memory.max"};
    auto const message = [&](std::int64_t bytes, Errc code) {
        Result<void> const checked = check_host_budget(bytes, limits);
        EXPECT_EQ(checked.ok() ? Errc::broken_promise : checked.error().code, code);
        return checked.ok() ? "" : checked.error().message();
    };
    EXPECT_EQ(
        message(9_GiB, Errc::bad_argument),
        "host memory: 9.0 GiB are asked for, but this machine has 8.0 GiB; ask for less"
    );
    EXPECT_EQ(
        message(5_GiB, Errc::bad_argument),
        "host memory: 5.0 GiB are asked for, but the cgroup allows 4.0 GiB (/job/memory.max); ask "
        "for less"
    );
    EXPECT_EQ(
        message(4_GiB, Errc::out_of_memory),
        "host memory: 4.0 GiB are asked for, but of this machine's 8.0 GiB only 3.0 GiB are "
        "available now; ask for less"
    );
    EXPECT_EQ(
        message(3_GiB, Errc::out_of_memory),
        "host memory: 3.0 GiB are asked for, but of the cgroup's 4.0 GiB already 2.0 GiB are used "
        "(/job/memory.max); ask for less"
    );
    EXPECT_EQ(message(-1, Errc::bad_argument), "host memory: a size cannot be negative: -1 bytes");
    EXPECT_TRUE(check_host_budget(2_GiB, limits).ok());
    EXPECT_TRUE(check_host_budget(0, limits).ok());
}

}  // namespace
}  // namespace spillway
