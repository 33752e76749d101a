// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codec/lossless.h"

#include "codec/layout.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace spillway {

namespace {

constexpr int kLevel = 1;
constexpr std::uint32_t kAsItIs = 1U << 31;  // in a frame's length
constexpr std::size_t kFrame = kFrameBytes;

struct FreeContext {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

struct Workspace {
    std::unique_ptr<ZSTD_CCtx, FreeContext> compressor{ZSTD_createCCtx()};
    std::unique_ptr<ZSTD_DCtx, FreeContext> decompressor{ZSTD_createDCtx()};
    std::array<std::byte, kFrame> shuffled{};
};

Workspace& workspace() {
    thread_local std::unique_ptr<Workspace> const kept = std::make_unique<Workspace>();
    return *kept;
}

/// The length of a frame in zstd's form; 0: not shorter than it is.
std::size_t compress_frame(
    Kernels const& kernels, Dtype dtype, std::span<std::byte const> raw, std::byte* to
) {
    Workspace& work = workspace();
    if (work.compressor == nullptr) {
        return 0;
    }
    kernels.shuffle(dtype, std::ssize(raw) / size_of(dtype), raw.data(), work.shuffled.data());
    std::size_t const length = ZSTD_compressCCtx(
        work.compressor.get(), to, raw.size() - 1, work.shuffled.data(), raw.size(), kLevel
    );
    return ZSTD_isError(length) != 0 ? 0 : length;
}

bool decompress_frame(
    Kernels const& kernels, Dtype dtype, std::span<std::byte const> codes, std::span<std::byte> raw
) {
    Workspace& work = workspace();
    if (work.decompressor == nullptr) {
        return false;
    }
    std::size_t const length = ZSTD_decompressDCtx(
        work.decompressor.get(), work.shuffled.data(), raw.size(), codes.data(), codes.size()
    );
    if (length != raw.size()) {
        return false;
    }
    kernels.unshuffle(dtype, std::ssize(raw) / size_of(dtype), work.shuffled.data(), raw.data());
    return true;
}

}  // namespace

std::int64_t compress(
    Kernels const& kernels, Dtype dtype, std::span<std::byte const> raw, std::span<std::byte> codes
) {
    std::byte* to = codes.data();
    while (!raw.empty()) {
        std::span<std::byte const> const frame = raw.first(std::min(kFrame, raw.size()));
        std::byte* const first = to + sizeof(std::uint32_t);
        auto length = static_cast<std::uint32_t>(compress_frame(kernels, dtype, frame, first));
        std::uint32_t word = length;
        if (length == 0) {
            length = static_cast<std::uint32_t>(frame.size());
            word = length | kAsItIs;
            std::memcpy(first, frame.data(), frame.size());
        }
        std::memcpy(to, &word, sizeof word);
        to = first + length;
        raw = raw.subspan(frame.size());
    }
    return to - codes.data();
}

bool decompress(
    Kernels const& kernels, Dtype dtype, std::span<std::byte const> codes, std::span<std::byte> raw
) {
    while (!raw.empty()) {
        std::span<std::byte> const frame = raw.first(std::min(kFrame, raw.size()));
        std::uint32_t word = 0;
        if (codes.size() < sizeof word) {
            return false;
        }
        std::memcpy(&word, codes.data(), sizeof word);
        codes = codes.subspan(sizeof word);
        std::size_t const length = word & ~kAsItIs;
        bool const as_it_is = (word & kAsItIs) != 0;
        if (length > codes.size() || (as_it_is && length != frame.size())) {
            return false;
        }
        if (as_it_is) {
            std::memcpy(frame.data(), codes.data(), length);
        } else if (!decompress_frame(kernels, dtype, codes.first(length), frame)) {
            return false;
        }
        codes = codes.subspan(length);
        raw = raw.subspan(frame.size());
    }
    return codes.empty();
}

}  // namespace spillway
