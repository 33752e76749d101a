// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Encode and decode on a GPU beside its own copies of the same raw bytes, in one run. Prints one
// JSON line; `value` is the lower share of what `qpo` uses, affine4 with stochastic rounding on
// bf16, of which 0.80 is asked. A copy reads and writes all raw bytes; `..._moved_of_copy` compares
// bytes read and written a second, which is what memory allows. Exit code 77 without a GPU.

#include "codec/codec.h"
#include "codec/layout.h"
#include "cuda_device/codec_kernels.h"
#include "cuda_device/cuda_error.h"
#include "cuda_device/smoke.h"

#include <cuda_runtime_api.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kRawBytes = std::int64_t{512} << 20;  // ten times what caches hold
constexpr double kBar = 0.80;

[[noreturn]] void give_up(int code, std::string const& why) {
    Json const error = code == 77 ? Json() : Json(why);
    Json const line{{"kind", "codecs"}, {"value", nullptr}, {"error", error}};
    std::printf("%s\n", line.dump().c_str());
    std::fprintf(stderr, "gpu_codec_bench: %s\n", why.c_str());
    std::exit(code);
}
void must(Result<void> const& done) {
    if (!done.ok()) {
        give_up(1, done.error().message());
    }
}
void must(cudaError_t status) {
    must(checked(status, "preparing", "gpu_codec_bench"));
}

std::byte* on_device(std::int64_t size) {
    void* memory = nullptr;
    must(::cudaMalloc(&memory, static_cast<std::size_t>(size)));
    return static_cast<std::byte*>(memory);
}

struct Memory {
    std::byte* raw = on_device(kRawBytes);
    std::byte* back = on_device(kRawBytes);
    std::byte* coded = on_device(kRawBytes + (std::int64_t{1} << 20));
    std::uint64_t* refused = reinterpret_cast<std::uint64_t*>(on_device(8));
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;

    Memory() {
        must(::cudaEventCreate(&begin));
        must(::cudaEventCreate(&end));
    }
};

/// Numbers that `dtype` can hold in any place, the same few again and again.
void fill(Memory const& memory, Encoding const& encoding) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<std::byte> some(std::size_t{1} << 20);
    auto const size = static_cast<std::size_t>(size_of(encoding.dtype));
    for (std::size_t at = 0; at < some.size(); at += size) {
        float const value = encoding.codec.kind == CodecKind::mask
                                ? (random() % 2 == 0 ? 0.0F : 1.0F)
                                : normal(random);
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        bits = size == 4 ? bits : bits >> 16;  // bf16
        std::memcpy(some.data() + at, &bits, size);
    }
    for (std::int64_t at = 0; at < kRawBytes; at += std::ssize(some)) {
        must(::cudaMemcpy(memory.raw + at, some.data(), some.size(), cudaMemcpyHostToDevice));
    }
}

/// Raw bytes a second of what `enqueue` enqueues; the best of some rounds.
template <typename Enqueue>
double rate_of(Memory const& memory, Enqueue const& enqueue) {
    constexpr int kRounds = 5;
    constexpr int kTimes = 8;
    double best = 0;
    for (int round = 0; round < kRounds; ++round) {
        must(::cudaEventRecord(memory.begin, nullptr));
        for (int i = 0; i < kTimes; ++i) {
            enqueue();
        }
        must(::cudaEventRecord(memory.end, nullptr));
        must(::cudaEventSynchronize(memory.end));
        float milliseconds = 0;
        must(::cudaEventElapsedTime(&milliseconds, memory.begin, memory.end));
        best = std::max(best, 1e3 * kTimes * static_cast<double>(kRawBytes) / milliseconds);
    }
    return best;
}

double copy_rate(Memory const& memory) {
    return rate_of(memory, [&] {
        must(
            ::cudaMemcpyAsync(memory.back, memory.raw, kRawBytes, cudaMemcpyDeviceToDevice, nullptr)
        );
    });
}

Json row_of(Memory const& memory, Encoding const& encoding) {
    fill(memory, encoding);
    double const copy = copy_rate(memory);
    double const encoded = rate_of(memory, [&] {
        must(encode_on_gpu(
            encoding, {.raw = memory.raw, .coded = memory.coded}, 1, memory.refused, nullptr
        ));
    });
    double const decoded = rate_of(memory, [&] {
        must(decode_on_gpu(encoding, {.raw = memory.back, .coded = memory.coded}, nullptr));
    });
    std::uint64_t refused = 0;
    must(::cudaMemcpy(&refused, memory.refused, sizeof refused, cudaMemcpyDeviceToHost));
    if (refused != kNoneRefused) {
        give_up(1, to_text(encoding.codec) + ": an element was refused");
    }
    // Of what a copy reads and writes.
    auto const coded_bytes = static_cast<double>(layout_of(encoding).total_bytes());
    double const moved = (static_cast<double>(kRawBytes) + coded_bytes) / (2.0 * kRawBytes);
    return {
        {"codec", to_text(encoding.codec)},
        {"dtype", name_of(encoding.dtype)},
        {"coded_bytes", coded_bytes},
        {"encode_moved_of_copy", moved * encoded / copy},
        {"decode_moved_of_copy", moved * decoded / copy},
        {"copy_gb_per_s", copy / 1e9},
        {"encode_gb_per_s", encoded / 1e9},
        {"decode_gb_per_s", decoded / 1e9},
        {"encode_of_copy", encoded / copy},
        {"decode_of_copy", decoded / copy}};
}

void measure() {
    Memory const memory;
    Json line{{"kind", "codecs"}, {"value", nullptr}, {"bar", kBar}, {"raw_bytes", kRawBytes}};
    for (Dtype const dtype : {Dtype::f32, Dtype::bf16}) {
        for (char const* const text :
             {"affine4",
              "affine4:stochastic",
              "affine4:absmax",
              "affine2",
              "affine3",
              "affine8",
              "fp8_e4m3",
              "nf4",
              "mask",
              "sign"}) {
            Encoding const encoding{*parse_codec(text), dtype, kRawBytes / size_of(dtype)};
            Json row = row_of(memory, encoding);
            if (dtype == Dtype::bf16 && std::string_view(text) == "affine4:stochastic") {
                line["value"] = std::min(
                    row["encode_of_copy"].get<double>(), row["decode_of_copy"].get<double>()
                );
            }
            line["rows"].push_back(std::move(row));
        }
    }
    line["error"] = nullptr;
    std::printf("%s\n", line.dump().c_str());
}

}  // namespace
}  // namespace spillway

int main() {
    int count = 0;
    spillway::Result<void> const found =
        spillway::checked(::cudaGetDeviceCount(&count), "not run on a GPU", "");
    if (!found.ok()) {
        spillway::give_up(77, found.error().message());
    }
    if (!spillway::kernels_are_built()) {
        spillway::give_up(77, "not run on a GPU: no nvcc compiled the kernels");
    }
    spillway::measure();
    return 0;
}
