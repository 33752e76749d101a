// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The allocator in front of torch's CUDA allocator, with a made-up one behind it.
#include "torch_driver/allocator/cuda_allocator.h"

#include "memory/cpu_device.h"
#include "test_paths.h"
#include "torch_driver/allocator/cuda_forwarding.h"
#include "torch_driver/allocator/restored_block.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

/// Records its calls. What a test does not need has no allocator behind it to go to.
class FakeAllocator final : public ForwardingCudaAllocator {
  public:
    FakeAllocator() : ForwardingCudaAllocator(nullptr) {}

    std::vector<std::string> calls;
    std::size_t room_bytes = 1000;
    bool ready = true;

    c10::DataPtr allocate(std::size_t size) override {
        take("allocate", size);
        return {memory_, memory_, &nothing, c10::Device(c10::kCUDA, 3)};
    }
    void* raw_alloc(std::size_t size) override {
        take("raw_alloc", size);
        return memory_;
    }
    void* raw_alloc_with_stream(std::size_t size, cudaStream_t) override {
        take("raw_alloc_with_stream", size);
        return memory_ + 1;
    }
    void raw_delete(void*) override { calls.push_back("raw_delete"); }
    std::string name() override { return "fake"; }
    bool initialized() override { return ready; }
    c10::DeleterFnPtr raw_deleter() const override { return &nothing; }
    bool is_simple_data_ptr(c10::DataPtr const&) const override { return true; }
    std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override {
        return {7, std::size_t{80} << 30U};
    }
    void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
        calls.push_back("setMemoryFraction " + std::to_string(device));
        fraction_ = fraction;
    }
    double getMemoryFraction(c10::DeviceIndex) override { return fraction_; }
    void recordStream(c10::DataPtr const&, c10::Stream) override {
        calls.push_back("recordStream");
    }
    void recordStream(c10::DataPtr const&, c10::cuda::CUDAStream) override {
        calls.push_back("recordStream of CUDA");
    }
    void setNoSplit(c10::DeviceIndex, c10::MempoolId_t) override { calls.push_back("setNoSplit"); }
    std::string getUserMetadata() override { return "metadata"; }

    [[nodiscard]] double fraction() const { return fraction_; }
    [[nodiscard]] char* memory() { return memory_; }
    static void nothing(void*) {}

  private:
    void take(std::string const& call, std::size_t size) {
        calls.push_back(call + " " + std::to_string(size));
        TORCH_CHECK_WITH(OutOfMemoryError, size <= room_bytes, "no room");
    }

    char memory_[16] = {};
    double fraction_ = 1;
};

using Calls = std::vector<std::string>;

FakeAllocator* g_behind = nullptr;  // what the plain functions below look at
Calls g_through;

void note_only(
    std::size_t size,
    c10::Device device,
    std::optional<c10::Stream> stream,
    c10::function_ref<void*()> allocate
) {
    std::string const where = stream ? ", stream " + std::to_string(stream->id()) : "";
    g_through.push_back(std::to_string(size) + " on " + device.str() + where);
    allocate();
}

void make_room_once(
    std::size_t, c10::Device, std::optional<c10::Stream>, c10::function_ref<void*()> allocate
) {
    try {
        allocate();
    } catch (c10::OutOfMemoryError const&) {
        g_behind->room_bytes = 5000;
        allocate();
    }
}

class CudaAllocatorTest : public testing::Test {
  protected:
    CudaAllocatorTest() {
        g_behind = &behind_;
        g_through.clear();
    }

    FakeAllocator behind_;
    RoomMakingCudaAllocator ours_{&behind_, [] { return c10::DeviceIndex{3}; }};
};

TEST_F(CudaAllocatorTest, a_block_is_the_inner_allocators_own) {
    ours_.set_through(note_only);
    c10::DataPtr const block = ours_.allocate(64);
    EXPECT_EQ(block.get(), behind_.memory());
    EXPECT_EQ(block.get_context(), behind_.memory());
    EXPECT_EQ(block.get_deleter(), &FakeAllocator::nothing);
    EXPECT_EQ(block.device(), c10::Device(c10::kCUDA, 3));
}

TEST_F(CudaAllocatorTest, every_way_to_allocate_goes_through_the_session) {
    ours_.set_through(note_only);
    static_cast<void>(ours_.allocate(1));
    EXPECT_EQ(ours_.raw_alloc(2), behind_.memory());
    EXPECT_EQ(ours_.raw_alloc_with_stream(3, nullptr), behind_.memory() + 1);
    EXPECT_EQ(g_through, (Calls{"1 on cuda:3", "2 on cuda:3", "3 on cuda:3, stream 0"}));
    EXPECT_EQ(behind_.calls, (Calls{"allocate 1", "raw_alloc 2", "raw_alloc_with_stream 3"}));
}

TEST_F(CudaAllocatorTest, a_block_that_came_back_keeps_its_users_itself) {
    c10::Stream const stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, 3), 0);
    c10::cuda::CUDAStream const same(stream);
    c10::DataPtr const torchs = ours_.allocate(64);
    ours_.recordStream(torchs, stream);
    ours_.recordStream(torchs, same);
    std::shared_ptr<CpuDevice> const device = CpuDevice::open({.limit_bytes = 1 << 20}).value();
    void* const memory = device->try_allocate(4096, {});
    {
        c10::Stream const own(c10::Stream::UNSAFE, stream.device(), 7);
        c10::DataPtr const back = restored_block(device, memory, own);
        ours_.recordStream(back, stream);
        ours_.recordStream(back, same);
        EXPECT_EQ(back.get(), memory);
    }
    EXPECT_EQ(device->used_bytes(), 0);
    EXPECT_EQ(behind_.calls, (Calls{"allocate 64", "recordStream", "recordStream of CUDA"}));
}

TEST_F(CudaAllocatorTest, nothing_runs_around_no_bytes_or_without_a_session) {
    static_cast<void>(ours_.allocate(5));
    ours_.set_through(note_only);
    static_cast<void>(ours_.allocate(0));
    ours_.set_through(nullptr);
    static_cast<void>(ours_.allocate(6));
    EXPECT_EQ(g_through, Calls());
    EXPECT_EQ(behind_.calls, (Calls{"allocate 5", "allocate 0", "allocate 6"}));
}

TEST_F(CudaAllocatorTest, a_session_may_make_room_and_try_again) {
    ours_.set_through(make_room_once);
    EXPECT_EQ(ours_.allocate(2000).get(), behind_.memory());
    EXPECT_EQ(behind_.calls, (Calls{"allocate 2000", "allocate 2000"}));
}

TEST_F(CudaAllocatorTest, out_of_memory_reaches_the_caller) {
    ours_.set_through(make_room_once);
    EXPECT_THROW(static_cast<void>(ours_.allocate(6000)), c10::OutOfMemoryError);
}

TEST_F(CudaAllocatorTest, other_calls_are_handed_on) {
    ours_.set_through(note_only);
    c10::DataPtr const block = ours_.allocate(8);
    ours_.raw_delete(nullptr);
    ours_.setNoSplit(0, {0, 0});
    EXPECT_EQ(behind_.calls, (Calls{"allocate 8", "raw_delete", "setNoSplit"}));
    EXPECT_EQ(ours_.name(), "fake");
    EXPECT_TRUE(ours_.is_simple_data_ptr(block));
    EXPECT_EQ(ours_.raw_deleter(), &FakeAllocator::nothing);
    EXPECT_EQ(ours_.getMemoryInfo(0).first, 7U);
    EXPECT_EQ(static_cast<cuda_torch::CUDAAllocator&>(ours_).getUserMetadata(), "metadata");
}

TEST_F(CudaAllocatorTest, every_virtual_of_this_torch_is_handed_on) {
    Dl_info found{};
    ASSERT_NE(::dladdr(reinterpret_cast<void*>(&c10::cuda::device_count), &found), 0);
    std::string const library = found.dli_fname;
    std::string const include = library.substr(0, library.rfind("/lib/")) + "/include";
    std::string const command =
        "python3 " + source_folder() + "/tools/check_forwarding.py '" + include + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

TEST_F(CudaAllocatorTest, a_limit_is_a_share_of_the_gpu_that_comes_out_exactly) {
    double const total = static_cast<double>(std::size_t{80} << 30U);
    for (std::int64_t const limit : {1L, 4096L, 16L << 30, (80L << 30) - 1}) {
        Result<void> const limited = limit_pool(ours_, 2, limit);
        ASSERT_TRUE(limited.ok()) << limited.error().message();
        EXPECT_EQ(static_cast<std::int64_t>(behind_.fraction() * total), limit);
        EXPECT_LT(behind_.fraction(), 1.0);
        EXPECT_EQ(behind_.calls.back(), "setMemoryFraction 2");
    }
    for (std::int64_t const limit : {0L, 80L << 30, 90L << 30}) {
        ASSERT_TRUE(limit_pool(ours_, 2, limit).ok());
        EXPECT_EQ(behind_.fraction(), 1.0) << limit;
    }
}

TEST_F(CudaAllocatorTest, a_limit_leaves_the_programs_own_as_it_was) {
    behind_.setMemoryFraction(0.5, 0);
    ASSERT_TRUE(limit_pool(ours_, 0, 8L << 30).ok());
    EXPECT_LT(behind_.fraction(), 0.2);
    ASSERT_TRUE(limit_pool(ours_, 0, 60L << 30).ok());
    EXPECT_EQ(behind_.fraction(), 0.5) << "a budget above it does not lift it";
    ASSERT_TRUE(limit_pool(ours_, 0, 0).ok());
    EXPECT_EQ(behind_.fraction(), 0.5);
}

TEST_F(CudaAllocatorTest, a_limit_needs_cuda_to_be_initialized_and_is_not_negative) {
    EXPECT_EQ(limit_pool(ours_, 0, -1).error().code, Errc::bad_argument);
    behind_.ready = false;
    Result<void> const limited = limit_pool(ours_, 0, 4096);
    ASSERT_FALSE(limited.ok());
    EXPECT_EQ(limited.error().code, Errc::unsupported);
    EXPECT_EQ(behind_.calls, Calls());
}

TEST(InstallCudaAllocatorTest, ours_stands_in_front_once_and_behaves_as_torchs) {
    cuda_torch::CUDAAllocator* const before = cuda_torch::get();
    std::string const name = before->name();
    install_cuda_allocator(nullptr);
    cuda_torch::CUDAAllocator* const ours = cuda_torch::get();
    EXPECT_NE(dynamic_cast<RoomMakingCudaAllocator*>(ours), nullptr);
    EXPECT_EQ(c10::GetAllocator(c10::kCUDA), ours);
    EXPECT_EQ(ours->name(), name);
    EXPECT_EQ(ours->raw_deleter(), before->raw_deleter());
    install_cuda_allocator(nullptr);
    EXPECT_EQ(cuda_torch::get(), ours);
}

/// In a process of its own, since torch looks for CUDA once and libtorch_cuda is never unloaded.
class CudaKernelsDeathTest : public testing::Test {
  protected:
    CudaKernelsDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void load_twice() {
    cuda_torch::CUDAAllocator* const before = cuda_torch::get();
    Result<void> const loaded = load_cuda_kernels();
    bool const kept = load_cuda_kernels().ok() && cuda_torch::get() == before;
    std::fprintf(stderr, "%s\n", loaded.ok() ? "loaded" : loaded.error().message().c_str());
    std::_Exit(loaded.ok() && kept && at::detail::getCUDAHooks().hasCUDART() ? 0 : 1);
}

void ask_and_load() {
    bool const none = !at::detail::getCUDAHooks().hasCUDART();
    Result<void> const loaded = load_cuda_kernels();
    std::fprintf(stderr, "%s\n", loaded.ok() ? "loaded" : loaded.error().message().c_str());
    std::_Exit(none && !loaded.ok() && loaded.error().code == Errc::unsupported ? 0 : 1);
}

TEST_F(CudaKernelsDeathTest, torchs_kernels_are_loaded_and_the_allocator_stays) {
    EXPECT_EXIT(load_twice(), testing::ExitedWithCode(0), "loaded");
}

TEST_F(CudaKernelsDeathTest, a_torch_that_looked_for_cuda_before_is_told_of) {
    EXPECT_EXIT(ask_and_load(), testing::ExitedWithCode(0), "torch checked for CUDA before");
}

void prefer_once(char const* own) {
    using c10::CachingAllocator::getAllocatorSettings;
    c10::CachingAllocator::setAllocatorSettings(own);  // over what the environment says
    prefer_expandable_segments();
    std::fprintf(stderr, "settings '%s'\n", getAllocatorSettings().c_str());
    std::_Exit(
        c10::CachingAllocator::AcceleratorAllocatorConfig::use_expandable_segments() ? 0 : 3
    );
}

TEST_F(CudaKernelsDeathTest, segments_are_expandable_where_the_program_has_no_settings_of_its_own) {
    EXPECT_EXIT(prefer_once(""), testing::ExitedWithCode(0), "settings 'expandable_segments:True'");
    EXPECT_EXIT(
        prefer_once("max_split_size_mb:512"),
        testing::ExitedWithCode(3),
        "settings 'max_split_size_mb:512'"
    );
}

TEST(CudaKernelsTest, without_a_gpu_no_pool_is_limited) {
    int const count = c10::cuda::device_count();
    if (count > 0) {
        GTEST_SKIP() << "there are " << count << " GPUs";
    }
    Result<void> const limited = limit_cuda_pool(0, 4096);
    ASSERT_FALSE(limited.ok());
    EXPECT_EQ(limited.error().code, Errc::unsupported) << limited.error().message();
}

bool is_refused(std::int64_t size_bytes) {
    try {
        (void)at::empty({size_bytes}, at::device(at::kCUDA).dtype(at::kByte));
        return false;
    } catch (c10::OutOfMemoryError const&) {
        return true;
    }
}

void allocate_on_gpu() {
    Result<void> const loaded = load_cuda_kernels();
    if (!loaded.ok()) {
        std::fprintf(stderr, "%s\n", loaded.error().message().c_str());
        std::_Exit(1);
    }
    g_through.clear();
    install_cuda_allocator(note_only);
    at::Tensor const first = at::empty({256}, at::device(at::kCUDA).dtype(at::kFloat));
    bool const through = g_through == Calls{"1024 on cuda:0"};
    install_cuda_allocator(nullptr);
    bool const limited = limit_cuda_pool(0, std::int64_t{64} << 20).ok() && is_refused(100 << 20);
    bool const again = limit_cuda_pool(0, 0).ok() && !is_refused(100 << 20);
    std::fprintf(stderr, "through ours %d, limited %d, again %d\n", through, limited, again);
    std::_Exit(through && limited && again ? 0 : 1);
}

TEST_F(CudaKernelsDeathTest, a_gpu_allocates_through_ours_and_keeps_to_the_limit) {
    if (c10::cuda::device_count() == 0) {
        GTEST_SKIP() << "no GPU";
    }
    EXPECT_EXIT(allocate_on_gpu(), testing::ExitedWithCode(0), "through ours");
}

}  // namespace
}  // namespace spillway
