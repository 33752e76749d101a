// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A warp a chunk. What a warp does is codec_whole.h and codec_plain.h, which codec_lanes_test.cc
// holds against the scalar codecs on the host.

#include "codec/layout.h"
#include "cuda_device/codec_coders.h"
#include "cuda_device/codec_kernels.h"
#include "cuda_device/cuda_error.h"

namespace spillway {

namespace {

using lanes::Array;
using lanes::Task;
using lanes::ToDecode;
using lanes::ToEncode;

constexpr int kWarps = 4;  // of a thread block
constexpr unsigned kAll = 0xffffffffU;

/// HostWarp's promises, kept by the 32 threads that run this.
class GpuWarp {
  public:
    template <typename Item>
    class Each {
      public:
        __device__ Item& operator[](int) { return mine_; }
        __device__ Item const& operator[](int) const { return mine_; }

      private:
        Item mine_;
    };

    __device__ explicit GpuWarp(std::uint64_t* refused) : refused_(refused) {}

    template <typename Step>
    __device__ void each(Step const& step) const {
        step(lane());
    }
    template <typename Word, int kCount>
    __device__ Each<Array<Word, kCount>> across(Each<Array<Word, kCount>> const& words, int apart)
        const {
        Each<Array<Word, kCount>> others;
        SPILLWAY_UNROLL
        for (int i = 0; i < kCount; ++i) {
            others[0].at[i] = __shfl_xor_sync(kAll, words[0].at[i], apart);
        }
        return others;
    }
    __device__ bool any(Each<bool> const& flags) const { return __any_sync(kAll, flags[0]) != 0; }
    __device__ void refuse(Each<std::int64_t> const& elements) const {
        static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
        atomicMin(
            reinterpret_cast<unsigned long long*>(refused_),
            static_cast<unsigned long long>(elements[0])
        );
    }
    __device__ std::uint32_t agree(Each<std::uint32_t> const& words, std::byte* word) const {
        auto* const shared = reinterpret_cast<unsigned*>(word);
        unsigned const having = __ballot_sync(kAll, words[0] != 0);
        if (having == 0) {
            return 0;
        }
        std::uint32_t const mine = __shfl_sync(kAll, words[0], __ffs(static_cast<int>(having)) - 1);
        std::uint32_t agreed = 0;
        if (lane() == 0) {
            agreed = *static_cast<unsigned volatile*>(shared);
            if (agreed == 0) {
                agreed = atomicCAS(shared, 0U, mine);
                agreed = agreed == 0 ? mine : agreed;
            }
        }
        return __shfl_sync(kAll, agreed, 0);
    }
    __device__ void meet() const { __syncwarp(); }

  private:
    __device__ static int lane() { return static_cast<int>(threadIdx.x % lanes::kLanes); }

    std::uint64_t* refused_;
};

/// Parts of a block on the device, and its chunks that a launch is for.
template <typename Raw, typename Coded>
struct Parts {
    Raw* raw = nullptr;
    Coded* ranges = nullptr;
    Coded* codes = nullptr;
    std::int64_t first = 0;
    std::int64_t count = 0;

    __device__ std::int64_t number() const {
        return first + std::int64_t{blockIdx.x} * kWarps + threadIdx.x / lanes::kLanes;
    }
};
using PartsToEncode = Parts<std::byte const, std::byte>;
using PartsToDecode = Parts<std::byte, std::byte const>;

template <typename Coder, bool kWhole>
__global__ void __launch_bounds__(kWarps* lanes::kLanes)
    encode_chunks(Task const task, PartsToEncode const parts, std::uint64_t* refused) {
    std::int64_t const number = parts.number();
    if (number < parts.first + parts.count) {
        ToEncode const chunk = lanes::chunk_of<typename Coder::Value>(
            task, number, parts.raw, parts.ranges, parts.codes
        );
        Coder::template encode<kWhole>(GpuWarp(refused), task, chunk);
    }
}

template <typename Coder, bool kWhole>
__global__ void __launch_bounds__(kWarps* lanes::kLanes)
    decode_chunks(Task const task, PartsToDecode const parts) {
    std::int64_t const number = parts.number();
    if (number < parts.first + parts.count) {
        ToDecode const chunk = lanes::chunk_of<typename Coder::Value>(
            task, number, parts.raw, parts.ranges, parts.codes
        );
        Coder::template decode<kWhole>(GpuWarp(nullptr), task, chunk);
    }
}

/// Launches `whole` for the whole chunks, where raw bytes can be read in wide pieces, and `plain`
/// for all others.
template <typename AnyParts, typename Whole, typename Plain>
void launch(Task const& task, AnyParts parts, Whole const& whole, Plain const& plain) {
    auto const blocks = [&] { return static_cast<unsigned>((parts.count + kWarps - 1) / kWarps); };
    bool const wide = reinterpret_cast<std::uintptr_t>(parts.raw) % 16 == 0;
    parts.count = wide ? task.whole_chunks() : 0;
    if (parts.count > 0) {
        whole(blocks(), parts);
    }
    parts.first = parts.count;
    parts.count = (task.count + arithmetic::kChunk - 1) / arithmetic::kChunk - parts.first;
    if (parts.count > 0) {
        plain(blocks(), parts);
    }
}

Result<void> check(Encoding const& encoding, DeviceBlock const& block) {
    Result<std::int64_t> const size = encoded_bytes(encoding);
    if (!size.ok()) {
        return size.error();
    }
    if (code_bits(encoding.codec) == 0) {
        return Error{Errc::unsupported, "no kernel does this on a GPU", to_text(encoding.codec)};
    }
    auto const raw = reinterpret_cast<std::uintptr_t>(block.raw);
    auto const coded = reinterpret_cast<std::uintptr_t>(block.coded);
    if (raw % static_cast<std::uintptr_t>(size_of(encoding.dtype)) != 0 || coded % 16 != 0) {
        return Error{
            Errc::bad_argument,
            "raw bytes begin at an element, coded ones at 16 bytes",
            to_text(encoding.codec)};
    }
    if (encoding.count > std::int64_t{1} << 40) {  // more chunks than a launch has warps
        return Error{Errc::bad_argument, "more elements than a GPU has", to_text(encoding.codec)};
    }
    return {};
}

}  // namespace

Result<void> encode_on_gpu(
    Encoding const& encoding,
    DeviceBlock const& block,
    std::uint64_t seed,
    std::uint64_t* refused,
    void* stream
) {
    if (Result<void> const fits = check(encoding, block); !fits.ok()) {
        return fits;
    }
    auto* const on = static_cast<cudaStream_t>(stream);
    Layout const layout = layout_of(encoding);
    auto* const coded = static_cast<std::byte*>(block.coded);
    PartsToEncode const parts{
        static_cast<std::byte const*>(block.raw),
        coded + layout.ranges_offset(),
        coded + layout.codes_offset()};
    // What lies behind the last range is 0, and so is what a mask's warps agree on at first.
    std::int64_t const padded = layout.range_bytes < 64 ? layout.range_bytes : 64;
    cudaError_t cleared = ::cudaMemsetAsync(
        coded + layout.codes_offset() - padded, 0, static_cast<std::size_t>(padded), on
    );
    if (cleared == cudaSuccess) {
        cleared = ::cudaMemsetAsync(refused, 0xff, sizeof *refused, on);
    }
    if (cleared != cudaSuccess) {
        return checked(cleared, "starting a kernel", "encode");
    }
    Task const task = lanes::task_of(encoding, seed);
    lanes::visit_coder(task.job, [&](auto coder) {
        using Coder = decltype(coder);
        constexpr int kThreads = kWarps * lanes::kLanes;
        launch(
            task,
            parts,
            [&](unsigned blocks, PartsToEncode const& some) {
                encode_chunks<Coder, true><<<blocks, kThreads, 0, on>>>(task, some, refused);
            },
            [&](unsigned blocks, PartsToEncode const& some) {
                using Plain = typename Coder::Plain;
                encode_chunks<Plain, false><<<blocks, kThreads, 0, on>>>(task, some, refused);
            }
        );
    });
    return checked(::cudaPeekAtLastError(), "starting a kernel", "encode");
}

Result<void> decode_on_gpu(Encoding const& encoding, DeviceBlock const& block, void* stream) {
    if (Result<void> const fits = check(encoding, block); !fits.ok()) {
        return fits;
    }
    auto* const on = static_cast<cudaStream_t>(stream);
    Layout const layout = layout_of(encoding);
    auto const* const coded = static_cast<std::byte const*>(block.coded);
    PartsToDecode const parts{
        static_cast<std::byte*>(block.raw),
        coded + layout.ranges_offset(),
        coded + layout.codes_offset()};
    Task const task = lanes::task_of(encoding, 0);
    lanes::visit_coder(task.job, [&](auto coder) {
        using Coder = decltype(coder);
        constexpr int kThreads = kWarps * lanes::kLanes;
        launch(
            task,
            parts,
            [&](unsigned blocks, PartsToDecode const& some) {
                decode_chunks<Coder, true><<<blocks, kThreads, 0, on>>>(task, some);
            },
            [&](unsigned blocks, PartsToDecode const& some) {
                using Plain = typename Coder::Plain;
                decode_chunks<Plain, false><<<blocks, kThreads, 0, on>>>(task, some);
            }
        );
    });
    return checked(::cudaPeekAtLastError(), "starting a kernel", "decode");
}

}  // namespace spillway
