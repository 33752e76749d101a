// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The suite on the three forms of the NVMe tier, and what only a tier with a file must do.
#include "base/units.h"
#include "tier/block_file.h"
#include "tier/faulty_tier.h"
#include "tier/nvme_tier.h"
#include "tier/uring.h"
#include "tier_suite.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

namespace spillway {
namespace {

constexpr std::int64_t kBlock = 64_KiB;

ScratchFolder& scratch() {
    static ScratchFolder folder;
    return folder;
}

bool in_memory(std::string const& folder) {
    struct statfs system {};
    return ::statfs(folder.c_str(), &system) == 0 && system.f_type == 0x01021994;
}

std::optional<std::string> no_direct() {
    Result<BlockFile> const file =
        BlockFile::make({.folder = scratch().path(), .allow_tmpfs = true});
    if (!file.ok() || !file->direct()) {
        return "the working folder's file system has no O_DIRECT";
    }
    return std::nullopt;
}

std::optional<std::string> no_uring() {
    if (std::optional<std::string> why = no_direct()) {
        return why;
    }
    Result<BlockFile> file = BlockFile::make({.folder = scratch().path(), .allow_tmpfs = true});
    Result<std::unique_ptr<Ring>> const ring = Ring::make(file->fd(), 4);
    return ring.ok() ? std::nullopt : std::optional(ring.error().message());
}

NvmeOptions options_here(std::int64_t capacity_bytes) {
    return {
        .folder = scratch().path(),
        .capacity_bytes = capacity_bytes,
        .allow_tmpfs = in_memory(scratch().path()),
        .piece_bytes = kBlock,
        .queue_depth = 4};
}

Result<std::unique_ptr<Tier>> open_uring(std::int64_t capacity_bytes) {
    return open_nvme_tier(options_here(capacity_bytes));
}

Result<std::unique_ptr<Tier>> open_threads(std::int64_t capacity_bytes) {
    NvmeOptions options = options_here(capacity_bytes);
    options.force_thread_pool = true;
    return open_nvme_tier(options);
}

Result<std::unique_ptr<Tier>> open_buffered(std::int64_t capacity_bytes) {
    NvmeOptions options = options_here(capacity_bytes);
    options.force_buffered = true;
    return open_nvme_tier(options);
}

Result<std::unique_ptr<Tier>> open_nvme(std::int64_t capacity_bytes) {
    Result<std::unique_ptr<Tier>> disk = open_uring(capacity_bytes);
    if (!disk.ok()) {
        return disk;
    }
    return std::unique_ptr<Tier>(std::make_unique<FaultyTier>(std::move(disk).value()));
}

INSTANTIATE_TEST_SUITE_P(
    nvme,
    TierSuite,
    testing::Values(
        TierUnderTest{
            .name = "uring", .block_bytes = kBlock, .open = open_uring, .missing = no_uring},
        TierUnderTest{
            .name = "threads", .block_bytes = kBlock, .open = open_threads, .missing = no_direct},
        TierUnderTest{.name = "buffered", .block_bytes = kBlock, .open = open_buffered},
        TierUnderTest{
            .name = "faultless_uring",
            .block_bytes = kBlock,
            .open = open_nvme,
            .missing = no_uring}
    ),
    name_of_param
);

TEST(NvmeTierTest, a_bad_folder_is_named_in_one_line_and_never_created) {
    std::string const absent = scratch().path() + "/absent";
    std::string const file = scratch().path() + "/file";
    Fd const made(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (std::string const& folder : {absent, file, std::string()}) {
        Result<std::unique_ptr<Tier>> const tier = open_nvme_tier({.folder = folder});
        ASSERT_FALSE(tier.ok());
        EXPECT_EQ(tier.error().code, Errc::bad_argument);
        std::string const message = tier.error().message();
        EXPECT_NE(message.find("'" + folder + "'"), std::string::npos) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos);
    }
    EXPECT_FALSE(std::filesystem::exists(absent));
    std::filesystem::remove(file);
}

TEST(NvmeTierTest, a_folder_that_is_not_writable_is_named) {
    std::string const folder = scratch().path() + "/locked";
    ASSERT_EQ(::mkdir(folder.c_str(), 0500), 0);
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {  // root may write anywhere: become somebody else
        bool const other = ::getuid() != 0 || ::setuid(65534) == 0;
        Result<std::unique_ptr<Tier>> const tier = open_nvme_tier({.folder = folder});
        bool const named = !tier.ok() && tier.error().code == Errc::bad_argument &&
                           tier.error().what.find(folder) != std::string::npos;
        ::_exit(other ? (named ? 0 : 1) : 77);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ::rmdir(folder.c_str());
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        GTEST_SKIP() << "root cannot become another user here";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(NvmeTierTest, memory_posing_as_a_disk_is_refused_unless_allowed) {
    std::string const folder = "/dev/shm";
    if (!in_memory(folder)) {
        GTEST_SKIP() << "/dev/shm is no tmpfs here";
    }
    Result<std::unique_ptr<Tier>> const refused =
        open_nvme_tier({.folder = folder, .capacity_bytes = 1_MiB});
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().what.find("tmpfs"), std::string::npos);
    Result<std::unique_ptr<Tier>> allowed =
        open_nvme_tier({.folder = folder, .capacity_bytes = 1_MiB, .allow_tmpfs = true});
    ASSERT_TRUE(allowed.ok()) << allowed.error().message();
    std::vector<std::byte> const from = noise(10'001, 1);
    std::vector<std::byte> to(from.size());
    Reservation const room = std::move((*allowed)->reserve(std::ssize(from))).value();
    SPILLWAY_EXPECT_OK(store_now(**allowed, room, from));
    SPILLWAY_EXPECT_OK(load_now(**allowed, room, to));
    EXPECT_EQ(from, to);
}

TEST(NvmeTierTest, the_file_is_ours_alone_and_has_no_name) {
    Result<BlockFile> const file =
        BlockFile::make({.folder = scratch().path(), .allow_tmpfs = true});
    ASSERT_TRUE(file.ok());
    struct stat found {};
    ASSERT_EQ(::fstat(file->fd(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0600U);
    EXPECT_EQ(found.st_nlink, 0U);
    EXPECT_TRUE(scratch().names().empty());
}

TEST(NvmeTierTest, nothing_is_left_after_kill_9) {
    ScratchFolder const folder;
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        NvmeOptions options = options_here(32_MiB);
        options.folder = folder.path();
        Result<std::unique_ptr<Tier>> const tier = open_nvme_tier(options);
        std::vector<std::byte> const bytes = noise(16_MiB, 3);
        Reservation const room = std::move((*tier)->reserve(16_MiB)).value();
        while (store_now(**tier, room, bytes).ok()) {
            if (::write(ready[1], "x", 1) != 1) {
                break;
            }
        }
        ::_exit(1);
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);  // a store has ended, the next is under way
    EXPECT_TRUE(folder.names().empty()) << "a file is visible while the tier is open";
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    ::close(ready[0]);
    ::close(ready[1]);
    EXPECT_TRUE(folder.names().empty());
}

TEST(NvmeTierTest, a_forked_child_is_refused_and_ends_without_hanging) {
    Result<std::unique_ptr<Tier>> opened = open_uring(8_MiB);
    ASSERT_TRUE(opened.ok());
    std::unique_ptr<Tier> tier = std::move(opened).value();
    std::vector<std::byte> bytes = noise(10'000, 2);
    Reservation room = std::move(tier->reserve(std::ssize(bytes))).value();
    SPILLWAY_EXPECT_OK(store_now(*tier, room, bytes));
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        Result<void> loaded;
        tier->load(room, bytes, [&loaded](Result<void> result) { loaded = std::move(result); });
        room.reset();
        tier.reset();
        ::_exit(loaded.ok() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    SPILLWAY_EXPECT_OK(load_now(*tier, room, bytes));
}

/// Of files without a name that the process has open in the scratch folder.
std::int64_t nameless_bytes(pid_t process) {
    std::int64_t bytes = 0;
    std::string const folder = "/proc/" + std::to_string(process) + "/fd";
    for (auto const& entry : std::filesystem::directory_iterator(folder)) {
        struct stat status {};
        std::error_code gone;
        std::string const name = std::filesystem::read_symlink(entry.path(), gone);
        if (name.starts_with(scratch().path()) && ::stat(entry.path().c_str(), &status) == 0 &&
            status.st_nlink == 0) {
            bytes += static_cast<std::int64_t>(status.st_blocks) * 512;
        }
    }
    return bytes;
}

TEST(NvmeTierTest, a_forked_child_that_lives_on_keeps_no_bytes_on_the_disk) {
    Result<std::unique_ptr<Tier>> opened = open_uring(8_MiB);
    ASSERT_TRUE(opened.ok());
    std::unique_ptr<Tier> tier = std::move(opened).value();
    std::vector<std::byte> bytes = noise(1_MiB, 2);
    Reservation room = std::move(tier->reserve(std::ssize(bytes))).value();
    SPILLWAY_EXPECT_OK(store_now(*tier, room, bytes));
    pid_t const child = ::fork();  // as DataLoader's workers
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    EXPECT_GE(nameless_bytes(child), 8_MiB);
    room.reset();
    tier.reset();
    EXPECT_EQ(nameless_bytes(child), 0);
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(NvmeTierTest, a_process_that_exits_in_mid_store_does_not_hang) {
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        static Tier* const tier = open_uring(64_MiB).value().release();  // nobody closes it
        static auto* const bytes = new std::vector<std::byte>(noise(32_MiB, 3));
        static auto* const room = new Reservation(std::move(tier->reserve(32_MiB)).value());
        tier->store(*room, *bytes, [](Result<void> const&) {});
        std::exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(NvmeTierTest, a_disk_that_is_fuller_than_the_capacity_says_so_and_goes_on) {
    Result<BlockFile> const other =
        BlockFile::make({.folder = scratch().path(), .allow_tmpfs = true});
    ASSERT_TRUE(other.ok());
    Result<std::unique_ptr<Tier>> const tier = open_buffered(std::int64_t{1} << 50);
    ASSERT_TRUE(tier.ok()) << tier.error().message();
    std::int64_t const free_before = other->free_bytes();
    Result<Reservation> const refused = (*tier)->reserve(std::int64_t{1} << 49);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::tier_full);
    EXPECT_GT(other->free_bytes(), free_before / 2) << "the try took what was free";
    EXPECT_EQ((*tier)->counters().used_bytes, 0);
    EXPECT_TRUE((*tier)->reserve(1_MiB).ok());
}

TEST(NvmeTierTest, bad_shapes_of_io_are_refused) {
    for (std::int64_t const block : {std::int64_t{-4096}, std::int64_t{1000}, 128_MiB}) {
        EXPECT_FALSE(open_nvme_tier({.folder = scratch().path(), .piece_bytes = block}).ok());
    }
    EXPECT_FALSE(open_nvme_tier({.folder = scratch().path(), .queue_depth = -1}).ok());
}

TEST(NvmeTierTest, the_default_opens_with_a_probe_and_most_of_what_is_free) {
    if (in_memory(scratch().path())) {
        GTEST_SKIP() << "the working folder is in memory";
    }
    Result<std::unique_ptr<Tier>> const tier = open_nvme_tier({.folder = scratch().path()});
    ASSERT_TRUE(tier.ok()) << tier.error().message();
    EXPECT_GT((*tier)->capacity_bytes(), 0);
    EXPECT_TRUE((*tier)->reserve(1_MiB).ok());
}

TEST(NvmeTierTest, registered_memory_moves_the_same_bytes) {
    if (std::optional<std::string> const why = no_uring()) {
        GTEST_SKIP() << *why;
    }
    std::unique_ptr<Tier> const tier = open_uring(16_MiB).value();
    PageBytes arena(4_MiB, 0);
    arena.fill(11);
    std::vector<std::byte> const before(arena.span().begin(), arena.span().end());
    Result<void> const registered = tier->register_memory(arena.span());
    if (!registered.ok()) {
        GTEST_SKIP() << registered.error().message();
    }
    Reservation const room = std::move(tier->reserve(3_MiB)).value();
    SPILLWAY_EXPECT_OK(store_now(*tier, room, arena.span().first(3_MiB)));
    std::memset(arena.span().data(), 0, arena.span().size());
    SPILLWAY_EXPECT_OK(load_now(*tier, room, arena.span().first(3_MiB)));
    EXPECT_EQ(0, std::memcmp(before.data(), arena.span().data(), 3_MiB));
    tier->forget_memory(arena.span());
    SPILLWAY_EXPECT_OK(load_now(*tier, room, arena.span().last(3_MiB)));
    EXPECT_EQ(0, std::memcmp(before.data(), arena.span().last(3_MiB).data(), 3_MiB));
}

}  // namespace
}  // namespace spillway
